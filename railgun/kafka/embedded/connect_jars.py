"""The jars of the local Connect, each with its SHA-256: the runtime, beside those of the broker, and three plugins.

To renew the list, resolve ``connect-runtime`` with jgo's Python resolver and leave out what the broker's list has already: both are of
one version of Kafka. The JDBC sink is Debezium's own archive, because two of its jars are published nowhere else; it has drivers for
PostgreSQL, MySQL, MariaDB, SQL Server and Oracle inside. Of what the resolver finds for Apicurio's converter, the list has what is used for
Avro: the rest is for JSON schemas, for codecs of files, or Kafka's own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from railgun.kafka.embedded.jars import JarSet, fetched_jars, is_cached, kafka_jars
from railgun.kafka.embedded.pinned import KAFKA_VERSION

DEBEZIUM_VERSION: Final = "3.6.0.Final"
CONVERTER_VERSION: Final = "2.6.13.Final"
_USER: Final = "the local Kafka Connect"

#: Maven coordinate -> SHA-256.
RUNTIME_JARS: Final[dict[str, str]] = {
    "javax.activation:activation:1.1.1": "ae475120e9fcd99b4b00b38329bd61cdc5eb754eee03fe66c01f50e137724f99",
    "org.glassfish.hk2.external:aopalliance-repackaged:3.0.6": "a82b6d1a348324ef88dc807c7cd7aaf633985cbff7b30036fb61a1b86981d840",
    "io.github.classgraph:classgraph:4.8.179": "16558357f234052370109127a45d69a9bd6d8646925594792634486dc48b159d",
    "org.apache.kafka:connect-api:4.3.1": "5ce6158d453d2d84ab3509260fff872c67fb532a51519da6acafc6835bc48cfe",
    "org.apache.kafka:connect-json:4.3.1": "ebd6d4900eb6835f30c6ce74b5f6d4a4fdc19e0a4a1de8da2f4463ea3ef20e41",
    "org.apache.kafka:connect-runtime:4.3.1": "9df3d2f78f8a1740af358dd78ccdf1396559223e0cfbf1a697ab9363dead6175",
    "org.apache.kafka:connect-transforms:4.3.1": "060bb300977304b53f9aebe79a3298c06a3d4240cb58b01e06eaa75abf4168eb",
    "org.glassfish.hk2:hk2-api:3.0.6": "c049a21a9fd9316c7e291a2bc28835f70d25affb623dc1599a83b6b84ec83a4f",
    "org.glassfish.hk2:hk2-locator:3.0.6": "e2664d21b017c3aa1518b913264602bea604edc54d356103c10afba99abd04fc",
    "org.glassfish.hk2:hk2-utils:3.0.6": "fc84d85a0744b576d9ec7db5845eeb998ed532a9450dd19c8c922c3ee6926206",
    "com.fasterxml.jackson.jakarta.rs:jackson-jakarta-rs-base:2.21.2": "40f4c57a2e6f34505338da188724e7ace7b343dde3964b76a12c993cdedad1af",
    "com.fasterxml.jackson.jakarta.rs:jackson-jakarta-rs-json-provider:2.21.2": "ca969ea798efedc4b56589505fab51eb69c11a361b2e7583855593fc8690a666",
    "com.fasterxml.jackson.module:jackson-module-blackbird:2.21.2": "5ed62cdcd357a24b73de9280e167aa014d7b4c17d04823844d482274cf07097e",
    "com.fasterxml.jackson.module:jackson-module-jakarta-xmlbind-annotations:2.21.2": "f507551c823b137c8487275fc171652a78a4f083732e349e1d3cb42e568dd7e4",
    "com.sun.activation:jakarta.activation:2.0.1": "b9e24b7dd6e07495562ea96531be3130c96dba4d78e1dfd88adbbdebf4332871",
    "jakarta.activation:jakarta.activation-api:2.1.0": "56e8d994095fe49c28138c60291482f66f18d12ac2b720e938697dce6a3135c7",
    "jakarta.annotation:jakarta.annotation-api:2.1.1": "5f65fdaf424eee2b55e1d882ba9bb376be93fb09b37b808be6e22e8851c909fe",
    "jakarta.inject:jakarta.inject-api:2.0.1": "f7dc98062fccf14126abb751b64fab12c312566e8cbdc8483598bffcea93af7c",
    "jakarta.servlet:jakarta.servlet-api:6.0.0": "c034eb1afb158987dbb53a5fea0cadf611c8dae8daadd59c44d9d5ab70129cef",
    "jakarta.validation:jakarta.validation-api:3.0.2": "291c25e6910cc6a7ebd96d4c6baebf6d7c37676c5482c2d96146e901b62c1fc9",
    "jakarta.ws.rs:jakarta.ws.rs-api:3.1.0": "6b3b3628b8b4aedda0d24c3354335e985497d8ef3c510b8f3028e920d5b8663d",
    "jakarta.xml.bind:jakarta.xml.bind-api:3.0.1": "b8fb4bee3ff5b5c1ef77144d8411316018d7bbd41fcf1ede0646f7978546b867",
    "org.javassist:javassist:3.30.2-GA": "eba37290994b5e4868f3af98ff113f6244a6b099385d9ad46881307d3cb01aaf",
    "javax.activation:javax.activation-api:1.2.0": "43fdef0b5b6ceb31b0424b208b930c74ab58fac2ceeb7b3f6fd3aeb8b5ca4393",
    "javax.xml.bind:jaxb-api:2.3.1": "88b955a0df57880a26a74708bc34f74dcaf8ebf4e78843a28b50eae945732b06",
    "org.glassfish.jersey.core:jersey-client:3.1.10": "96cf86c23b515da20a30a39633a920f12a420d1e5f02c55ef5577ca2694d11c6",
    "org.glassfish.jersey.core:jersey-common:3.1.10": "b8df5de87d48d6abf555f340755a056c8cb29a660af958e959db8a4cb3552b54",
    "org.glassfish.jersey.containers:jersey-container-servlet:3.1.10": "4aadc66d2d36afb273b3898581d6aa51e0f992308d56fd51b8e3201efa461f67",
    "org.glassfish.jersey.containers:jersey-container-servlet-core:3.1.10": "fd15e7e37215d772ccdae8d4076c41a11ad3fec9ca88a1f8a8f6dacf4663bb69",
    "org.glassfish.jersey.inject:jersey-hk2:3.1.10": "00ed71c496a856ac1f73272482a7abe27b5a96b823c29cc08f4b708c8d3e647e",
    "org.glassfish.jersey.core:jersey-server:3.1.10": "1b33a9be417b72f7ceef3afe9780781b66122b0f1db78f2f82502988072cfab0",
    "org.eclipse.jetty:jetty-alpn-client:12.0.34": "dde78ab533961bb853a8ce5a23a90d4dd54cd6522e9e7f90566ca7f44e035ef9",
    "org.eclipse.jetty:jetty-client:12.0.34": "b77b7535a809c78af71126b90aed0836cc9f9ac80d32e5cbf7a07025ace14401",
    "org.eclipse.jetty.ee10:jetty-ee10-servlet:12.0.34": "08030501c5868ba348e0e349121cb3493586c29d438c725bf76b0559e8d5f5ed",
    "org.eclipse.jetty.ee10:jetty-ee10-servlets:12.0.34": "bf9fe841e09f39d498838965b57e52b79f12e7bd5e259e645cc9e0a6cbe96426",
    "org.eclipse.jetty:jetty-http:12.0.34": "63890ecc5bb8bf26c4dd0952ef2d0d3dd3f7434b37b21e51f7ea8dfbe96b9dc0",
    "org.eclipse.jetty:jetty-io:12.0.34": "3704daeb82b39041ee5e6f810636c2fcb9a10476cdbf0fd067e584ed3110d66a",
    "org.eclipse.jetty:jetty-security:12.0.34": "e9a595eff775859a5461c0ce05e27ace5182ee1fdc1b17016453fa41ca0e1560",
    "org.eclipse.jetty:jetty-server:12.0.34": "fb7a1401b7b2358e9cb975764c54fac72fcecd7ae5199369041118603cd3fd7d",
    "org.eclipse.jetty:jetty-session:12.0.34": "a161ae531c5d6a695f17a547fdf90746dcd929f1abac5c60c7061a6fb20d346f",
    "org.eclipse.jetty:jetty-util:12.0.34": "3f8906cd72428d87dbbc0bd915192ce0f426e9db7805d3b0337588c1b6d7206e",
    "org.apache.maven:maven-artifact:3.9.15": "f154c31f15ac97c37b9cdf9f8d63cde5053c470d2daf54df7dfd3bb3c9e501c6",
    "org.glassfish.hk2:osgi-resource-locator:1.0.3": "aab5d7849f7cfcda2cc7c541ba1bd365151d42276f151c825387245dfde3dd74",
    "org.codehaus.plexus:plexus-utils:3.6.1": "05a63effd67e2d6b9d610cc82e2bd7473289d34802e57a529b28110f28af5679",
    "io.swagger.core.v3:swagger-annotations:2.2.39": "ea3017076809f8104ff8a130dc4c12db8c67595aa1d978104a9beca8277a7d29",
}
FILE_JARS: Final = {
    "org.apache.kafka:connect-file:4.3.1": "e330c491309d8f839f2abd7260c72a3687d6d82ecf2ba0f7699a46d41a46dcac",
}
JDBC_JARS: Final = {
    f"io.debezium:debezium-connector-jdbc:{DEBEZIUM_VERSION}:plugin:tar.gz": "c23af8d416f0f801ffb0271b1a8fd9b5360ff8d66b0dd650e066bb56ecfddc05",
}
AVRO_JARS: Final = {
    "com.fasterxml.jackson.core:jackson-annotations:2.17.2": "873a606e23507969f9bbbea939d5e19274a88775ea5a169ba7e2d795aa5156e1",
    "com.fasterxml.jackson.core:jackson-core:2.17.2": "721a189241dab0525d9e858e5cb604d3ecc0ede081e2de77d6f34fa5779a5b46",
    "com.fasterxml.jackson.core:jackson-databind:2.17.2": "c04993f33c0f845342653784f14f38373d005280e6359db5f808701cfae73c0c",
    "io.apicurio:apicurio-common-rest-client-common:0.1.18.Final": "7e73da0b5bd1cff35ff24f2172d41b79ef55362dbbd6104c5d5108ffed87dcd7",
    "io.apicurio:apicurio-common-rest-client-jdk:0.1.18.Final": "ef1feac9226e31722444f608ad5d998e0d0753ed886a6decad19effe23d9b734",
    "io.apicurio:apicurio-registry-client:2.6.13.Final": "3b06edde267fbf98207fcab297679b25475d62f4b31aa54612eb0e44f1804ad2",
    "io.apicurio:apicurio-registry-common:2.6.13.Final": "1f08d5cfdf183be38f53df9e4ed72cb11f7923405ba7f2b3043f334fe6c732df",
    "io.apicurio:apicurio-registry-schema-resolver:2.6.13.Final": "171a974f39df803e0084c962b80b58a2e40645cb08e8297bdbbe34c2ef61a3c1",
    "io.apicurio:apicurio-registry-serde-common:2.6.13.Final": "5f5e0e834699516be7b39ee6cdefa138a417758bbf66e28950158a7232014e76",
    "io.apicurio:apicurio-registry-serdes-avro-serde:2.6.13.Final": "71e2a474b6ef82b94d161eed801bc6570a31b324e6872e7c19e09c3b10bc3ad1",
    "io.apicurio:apicurio-registry-utils-converter:2.6.13.Final": "95392390745e31941e3f8e3565f883a2c31b9fd1d38eb0e22aac7721dd73508a",
    "org.apache.avro:avro:1.12.0": "1f5fbfff9b7427d6832cc3031a3c81413d3e21d9e2551847d9231c28493f9492",
}
# Connect finds plugins by their service files, and this one has none.
_AVRO_SERVICES: Final = (
    ("org.apache.kafka.connect.storage.Converter", "io.apicurio.registry.utils.converter.AvroConverter"),
)

RUNTIME: Final = JarSet(f"connect-{KAFKA_VERSION}", RUNTIME_JARS, f"Kafka Connect {KAFKA_VERSION}", _USER)
PLUGINS: Final = (
    JarSet(f"connect-file-{KAFKA_VERSION}", FILE_JARS, "Connect's file connectors", _USER),
    JarSet(f"connect-jdbc-{DEBEZIUM_VERSION}", JDBC_JARS, f"Debezium's JDBC sink {DEBEZIUM_VERSION}", _USER),
    JarSet(
        f"connect-avro-{CONVERTER_VERSION}",
        AVRO_JARS,
        f"Apicurio's Avro converter {CONVERTER_VERSION}",
        _USER,
        _AVRO_SERVICES,
    ),
)


def connect_cached(cache: Path | None = None) -> bool:
    """Whether a start of the local Connect needs no network."""
    return all(is_cached(jars, cache) for jars in (RUNTIME, *PLUGINS))


def connect_jars(cache: Path | None = None) -> list[Path]:
    """The class path of a Connect worker, fetched first when the cache does not hold it (11 MB beside the broker's).

    Raises :class:`~railgun.kafka.embedded.errors.JarsUnavailable`, in one sentence.
    """
    return [*kafka_jars(cache), *fetched_jars(RUNTIME, cache)]


def plugin_folders(cache: Path | None = None) -> dict[str, Path]:
    """The folders of the plugins by their names, fetched first when the cache does not hold them (62 MB). Raises JarsUnavailable."""
    return {plugin.name: fetched_jars(plugin, cache)[0].parent for plugin in PLUGINS}
