"""The suite inside other people's tests.

:func:`assert_lossless` checks one implementation inside any test; :func:`parametrize_with_checks`
makes one test of each conformance check; the pytest plugin of this distribution adds the fixture
``specverify`` and the options ``--specverify-...``. Names are loaded when they are first used, so
that the plugin costs nothing in runs that do not use it.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
