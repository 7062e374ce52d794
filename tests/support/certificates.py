"""Certificates for a broker and its clients, signed by an authority of our own."""

from __future__ import annotations

from pathlib import Path

import trustme
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)


class Authority:
    """One that signs; its files are in a folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._authority = trustme.CA()
        self._certificate = folder / "authority.pem"
        self._authority.cert_pem.write_to_path(str(self._certificate))

    def key_store(self) -> Path:
        """Key and certificate of a broker on this machine, in one file as Kafka wants it (the key as PKCS 8)."""
        issued = self._authority.issue_cert("127.0.0.1", "localhost")
        key = load_pem_private_key(issued.private_key_pem.bytes(), None)
        store = self._folder / "broker.pem"
        store.write_bytes(
            key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
            + b"".join(blob.bytes() for blob in issued.cert_chain_pems)
        )
        return store

    @property
    def trust_store(self) -> Path:
        return self._certificate

    def options(self, user: str | None = None) -> dict[str, str]:
        """Of a client that trusts this authority; ``user`` shows a certificate with that name."""
        options = {"security.protocol": "SSL", "ssl.ca.location": str(self._certificate)}
        if user is not None:
            issued = self._authority.issue_cert(f"{user}.example.org", common_name=user)
            certificate, key = self._folder / f"{user}.pem", self._folder / f"{user}.key"
            certificate.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
            issued.private_key_pem.write_to_path(str(key))
            options |= {"ssl.certificate.location": str(certificate), "ssl.key.location": str(key)}
        return options
