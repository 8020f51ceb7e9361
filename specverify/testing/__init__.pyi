from .conformance import Check as Check
from .decorator import parametrize_with_checks as parametrize_with_checks
from .failures import ConformanceError as ConformanceError
from .failures import EfficiencyWarning as EfficiencyWarning
from .failures import InconclusiveError as InconclusiveError
from .failures import NotLosslessError as NotLosslessError
from .lossless import LosslessReport as LosslessReport
from .lossless import assert_lossless as assert_lossless
