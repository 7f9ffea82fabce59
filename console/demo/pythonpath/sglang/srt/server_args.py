"""SGLang's own place for the arguments of a server."""

from sglang.server_args import ServerArgs as ServerArgs
