# Kafka Connect with the plugins of the local one: Debezium's JDBC sink, Kafka's file connectors and Apicurio's Avro converter, pinned by their checksums.
FROM python:3.13.9-slim-bookworm AS plugins

WORKDIR /opt/railgun
COPY requirements.lock pyproject.toml README.md LICENSE ./
COPY schemas ./schemas
COPY topologies ./topologies
COPY railgun ./railgun
COPY compose/copy_plugins.py ./copy_plugins.py
RUN pip install --no-cache-dir --constraint requirements.lock ".[embedded]" && python copy_plugins.py /plugins

FROM apache/kafka:4.3.1
COPY --from=plugins /plugins /opt/connect/plugins
COPY compose/connect.properties /opt/connect/connect.properties
CMD ["/opt/kafka/bin/connect-distributed.sh", "/opt/connect/connect.properties"]
