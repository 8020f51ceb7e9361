__version__: str

from .distributions import acceptance_probabilities as acceptance_probabilities
from .distributions import acceptance_rate as acceptance_rate
from .distributions import residual_distribution as residual_distribution
from .distributions import total_variation as total_variation
from .models.tabular import TabularModel as TabularModel
from .warping import SamplingParams as SamplingParams
from .warping import warp_logits as warp_logits
from .warping import warp_probs as warp_probs
