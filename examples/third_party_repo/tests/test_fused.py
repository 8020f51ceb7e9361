"""A test that fails: the fused kernel has a defect."""

from fastdecode.kernels import verify_fused


def test_fused_kernel_is_lossless(specverify):
    """Fails, with the smallest counterexample."""
    specverify.assert_lossless(verify_fused)
