"""Every conformance check on every kernel; what is known to fail is declared, with its reason."""

from fastdecode.kernels import verify, verify_legacy

from specverify.testing import parametrize_with_checks

LEGACY = "issue 12: the correction is drawn from the target"


@parametrize_with_checks(
    [verify, verify_legacy],
    expected_failed_checks={"verify_legacy": {"token_law": LEGACY, "joint_law": LEGACY}},
)
def test_kernel(implementation, check):
    """One test for each kernel and check."""
    check(implementation)
