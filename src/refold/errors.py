"""All errors that Refold raises: `RefoldError` and its subclasses.

Their data are attributes.
"""

from refold.engine.errors import *  # noqa: F403 - each class there is one
