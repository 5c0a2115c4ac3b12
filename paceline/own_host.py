"""Commands for a node, as its own terminal takes them.

Rule of this file: pure text.
"""

import shlex


def here(command: str, host: str) -> str:
    """``command`` without ssh where it would go to ``host``, the machine that its reader is on; "" where none is known.

    >>> here("ssh gpu-7 'free -m'", "gpu-7"), here("ssh gpu-7 'free -m'", "login"), here("free -m", "gpu-7")
    ('free -m', "ssh gpu-7 'free -m'", 'free -m')
    """
    try:
        words = shlex.split(command)
    except ValueError:
        return command
    return words[2] if host and len(words) == 3 and words[:2] == ["ssh", host] else command


def either(command: str, host: str) -> str:
    """``command`` for those who may read it on ``host`` or elsewhere: without ssh, which a comment adds.

    >>> either("ssh gpu-7 'free -m'", "gpu-7"), either("ssh gpu-7 'free -m'", "login")
    ("free -m  # on gpu-7; from elsewhere: ssh gpu-7 'free -m'", "ssh gpu-7 'free -m'")
    """
    plain = here(command, host)
    return command if plain == command else f"{plain}  # on {host}; from elsewhere: {command}"
