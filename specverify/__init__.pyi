__version__: str

from .distributions import acceptance_probabilities as acceptance_probabilities
from .distributions import acceptance_rate as acceptance_rate
from .distributions import residual_distribution as residual_distribution
from .distributions import total_variation as total_variation
from .models.tabular import TabularModel as TabularModel
from .sampler.batched import BlockBatch as BlockBatch
from .sampler.batched import verify_blocks as verify_blocks
from .sampler.batched import verify_blocks_from_uniforms as verify_blocks_from_uniforms
from .sampler.draws import categorical_from_uniforms as categorical_from_uniforms
from .sampler.draws import sample_categorical as sample_categorical
from .sampler.verify import speculative_verify as speculative_verify
from .warping import SamplingParams as SamplingParams
from .warping import warp_logits as warp_logits
from .warping import warp_probs as warp_probs
from .models.gpt import GPTModel as GPTModel
from .models.step import model_step as model_step
from .models.weights import load_gpt as load_gpt
from .models.weights import save_gpt as save_gpt
