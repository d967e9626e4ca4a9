"""Certificates for servers that demand TLS: an authority of the test's own, a server and a client that it signed."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass(frozen=True, slots=True)
class Certificates:
    """ca.pem, server.pem and server.key (for localhost), client.pem and client.key in a directory."""

    directory: Path

    @property
    def authority(self) -> Path:
        return self.directory / "ca.pem"


def make_certificates(directory: Path) -> Certificates:
    directory.mkdir(parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    authority = _signed("Test authority", key.public_key(), "Test authority", key, is_authority=True)
    _write(directory / "ca.pem", authority.public_bytes(serialization.Encoding.PEM))
    for name in ("server", "client"):
        own = ec.generate_private_key(ec.SECP256R1())
        common_name = "localhost" if name == "server" else "app"
        certificate = _signed(common_name, own.public_key(), "Test authority", key)
        _write(directory / f"{name}.pem", certificate.public_bytes(serialization.Encoding.PEM))
        private = own.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        _write(directory / f"{name}.key", private)
    return Certificates(directory)


def _signed(
    subject: str,
    public: ec.EllipticCurvePublicKey,
    issuer: str,
    key: ec.EllipticCurvePrivateKey,
    *,
    is_authority: bool = False,
) -> x509.Certificate:
    now = datetime.now(UTC)
    names = [x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))]
    return (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(_name(issuer))
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=30))
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(key, hashes.SHA256())
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    path.chmod(0o600)
