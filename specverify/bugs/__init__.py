"""The zoo: implementations with one known defect each, and controls that only look wrong."""

from specverify.bugs.base import Bug, Effect, Kind, Role, Stage
from specverify.bugs.registry import CONTROLS, LOSSY, ZOO

__all__ = ["CONTROLS", "LOSSY", "ZOO", "Bug", "Effect", "Kind", "Role", "Stage"]
