"""One Apache Kafka with a listener for each way to log in, for tests of those who log in.

Rule of this file: the brokers' side alone, each thing made as docs/deploy.md says. In the clear everybody is an
administrator, for tests to prepare; on the others nobody may do anything that no rule gives.
"""

import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from paceline.kafka.settings import BrokerSettings
from paceline.kafka.tokens import TokenSettings
from tests.token_issuer import AUDIENCE, ISSUER, TokenIssuer

WAYS = ("tls", "mtls", "scram", "oauth")
CLIENTS = {"streams": "streams-secret", "page": "page-secret", "collectors": "collectors-secret"}
_KEY = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
_MODULE = "org.apache.kafka.common.security"
PROPERTIES = f"""
listeners=CLIENT://127.0.0.1:{{clear}},CONTROLLER://127.0.0.1:{{controller}},TLS://127.0.0.1:{{tls}},\
MTLS://127.0.0.1:{{mtls}},SCRAM://127.0.0.1:{{scram}},OAUTH://127.0.0.1:{{oauth}}
advertised.listeners=CLIENT://127.0.0.1:{{clear}},TLS://127.0.0.1:{{tls}},MTLS://127.0.0.1:{{mtls}},\
SCRAM://127.0.0.1:{{scram}},OAUTH://127.0.0.1:{{oauth}}
controller.quorum.voters=1@127.0.0.1:{{controller}}
listener.security.protocol.map=CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT,TLS:SSL,MTLS:SSL,SCRAM:SASL_SSL,OAUTH:SASL_SSL
ssl.keystore.type=PEM
ssl.keystore.location={{folder}}/store.pem
ssl.truststore.type=PEM
ssl.truststore.location={{folder}}/ca.pem
listener.name.mtls.ssl.client.auth=required
listener.name.scram.sasl.enabled.mechanisms=SCRAM-SHA-512
listener.name.scram.scram-sha-512.sasl.jaas.config={_MODULE}.scram.ScramLoginModule required;
listener.name.oauth.sasl.enabled.mechanisms=OAUTHBEARER
listener.name.oauth.oauthbearer.sasl.jaas.config={_MODULE}.oauthbearer.OAuthBearerLoginModule required;
listener.name.oauth.oauthbearer.sasl.server.callback.handler.class=\
{_MODULE}.oauthbearer.OAuthBearerValidatorCallbackHandler
listener.name.oauth.oauthbearer.connections.max.reauth.ms=3600000
sasl.oauthbearer.jwks.endpoint.url={{keys}}
sasl.oauthbearer.expected.issuer={ISSUER}
sasl.oauthbearer.expected.audience={AUDIENCE}
sasl.oauthbearer.clock.skew.seconds=0
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
"""


def certificates(folder: Path) -> None:
    """An authority, the brokers' and clients' certificates by it, and a client's of another authority."""
    (folder / "san").write_text("subjectAltName=IP:127.0.0.1\n")
    for authority in ("ca", "other"):
        _run(
            folder,
            f"openssl req {_KEY} -x509 -days 2 -keyout {authority}.key -out {authority}.pem -subj /CN={authority}",
        )
    _sign(folder, "broker", "ca", "-extfile san", "/CN=broker")
    for name in CLIENTS:
        _sign(folder, name, "ca", "", f"/O=Example/CN={name}")
    _sign(folder, "stranger", "other", "", "/O=Example/CN=page")
    parts = ("broker.key", "broker.pem", "ca.pem")
    (folder / "store.pem").write_text("".join((folder / part).read_text() for part in parts))


def _sign(folder: Path, name: str, authority: str, extra: str, subject: str) -> None:
    _run(folder, f"openssl req {_KEY} -keyout {name}.key -out {name}.csr -subj {subject}")
    _run(
        folder,
        f"openssl x509 -req -days 2 -in {name}.csr -CA {authority}.pem -CAkey {authority}.key -CAcreateserial "
        f"-out {name}.pem {extra}",
    )


def _run(folder: Path, command: str) -> None:
    subprocess.run(command.split(), cwd=folder, check=True, capture_output=True)


class Doors:
    """A node with all listeners, and the settings of each client for each of them."""

    def __init__(
        self,
        folder: Path,
        new_node: Callable[..., Any],
        port: Callable[[], int],
        keys: TokenIssuer,
        issuer: TokenIssuer,
    ) -> None:
        """``keys`` is asked by the brokers, ``issuer``, which has the same, by the clients."""
        self.folder, self.issuer = folder, issuer
        properties, users = folder / "doors.properties", folder / "users"
        users.write_text("".join(f"{name}={secret}\n" for name, secret in CLIENTS.items()))
        self.node = new_node(
            EXTRA_PROPERTIES=str(properties),
            SCRAM_USERS_FILE=str(users),
            JAVA_OPTIONS=f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={keys.url}/keys",
        )
        self.ports = {name: port() for name in (*WAYS, "controller")} | {"clear": self.node.port}
        properties.write_text(PROPERTIES.format(folder=folder, keys=f"{keys.url}/keys", **self.ports))
        self.node.start()

    @property
    def clear(self) -> BrokerSettings:
        """The administrator's settings."""
        return self.node.settings

    def settings(self, way: str, name: str = "page") -> BrokerSettings:
        """Those that are right for the client ``name``."""
        secured = BrokerSettings((f"127.0.0.1:{self.ports[way]}",), "SASL_SSL", ssl_cafile=f"{self.folder}/ca.pem")
        if way == "scram":
            return replace(secured, sasl_username=name, sasl_password=CLIENTS[name])
        if way == "oauth":
            cafile = f"{self.folder}/ca.pem"
            tokens = TokenSettings(f"{self.issuer.url}/token", name, CLIENTS[name], cafile=cafile)
            return replace(secured, sasl_mechanism="OAUTHBEARER", sasl_oauth=tokens)
        own = {"ssl_certfile": f"{self.folder}/{name}.pem", "ssl_keyfile": f"{self.folder}/{name}.key"}
        return replace(secured, security_protocol="SSL", **(own if way == "mtls" else {}))

    def principal(self, way: str, name: str) -> str:
        """As whom the brokers know the client."""
        return {"tls": "User:ANONYMOUS", "mtls": f"User:CN={name},O=Example"}.get(way, f"User:{name}")

    def environ(self, way: str, name: str) -> dict[str, str]:
        """The settings as variables."""
        held = self.settings(way, name)
        named = {
            "BROKERS": held.address,
            "SECURITY_PROTOCOL": held.security_protocol,
            "SSL_CAFILE": held.ssl_cafile,
            "SSL_CERTFILE": held.ssl_certfile,
            "SSL_KEYFILE": held.ssl_keyfile,
            "SASL_MECHANISM": held.sasl_mechanism,
            "SASL_USERNAME": held.sasl_username,
            "SASL_PASSWORD": held.sasl_password,
        }
        if held.sasl_oauth is not None:
            named |= {
                "SASL_OAUTH_TOKEN_URL": held.sasl_oauth.url,
                "SASL_OAUTH_CLIENT_ID": held.sasl_oauth.client_id,
                "SASL_OAUTH_CLIENT_SECRET": held.sasl_oauth.client_secret,
                "SASL_OAUTH_CAFILE": held.sasl_oauth.cafile,
            }
        return {f"PACELINE_{key}": value for key, value in named.items() if value}
