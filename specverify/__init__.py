"""Statistical verification and simulation of speculative decoding.

Every public name is exported flat from here and loaded when it is first used; ``__init__.pyi``
lists them once, for this module and for type checkers alike.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__version__ = "0.1.0"
