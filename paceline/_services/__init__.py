"""Where the wheel has the services and tools: a checkout's ``streams`` is installed as ``paceline._services.streams``.

Rule of this file: a checkout has nothing here, but beside ``paceline``; ``paceline.service_modules`` says where.
"""
