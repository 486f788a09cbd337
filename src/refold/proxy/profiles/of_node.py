"""What programs of Node run first: an option that is appended to their NODE_OPTIONS."""

import base64


def first_running(code: str) -> dict[str, str]:
    """Return the variable by which programs run a module before their own; it is `appended`."""
    module = base64.b64encode(code.encode()).decode()
    return {"NODE_OPTIONS": f"--import=data:text/javascript;base64,{module}"}
