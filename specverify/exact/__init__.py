"""The exact output law of a callable, by enumerating its random choices.

Flat names: :func:`enumerate_law`, :class:`ExactLaw`, :func:`tv_bounds`, :class:`TracedGenerator`.
"""

from specverify.exact.law import ExactLaw as ExactLaw
from specverify.exact.law import TvBounds as TvBounds
from specverify.exact.law import enumerate_law as enumerate_law
from specverify.exact.law import tv_bounds as tv_bounds
from specverify.exact.numpy_draws import TracedGenerator as TracedGenerator
from specverify.exact.tape import ReplayDivergence as ReplayDivergence
