"""One lazily imported file for each third-party engine, server protocol or log format.

Importing this package gives the engines their names; each file, and its library, is loaded only
when the audit asks for it.
"""

from specverify.audit.forms import Form
from specverify.audit.targets import register

register("transformers", Form.VERIFY, "specverify.adapters.transformers:speculative_sampling")
register("transformers", Form.GENERATE, "specverify.adapters.transformers:TransformersEngine")
register("llama-cpp", Form.GENERATE, "specverify.adapters.llama_cpp:LlamaCppEngine")
register("http", Form.GENERATE, "specverify.adapters.openai_server:OpenAIServer")
register("samples", Form.GENERATE, "specverify.adapters.recorded_engine:RecordedSamples")
