"""What the HTTP services share: how they refuse, whom they answer, who may change something.

Rule of this folder: nothing here knows a route. It needs FastAPI, which the services' extras bring.
"""
