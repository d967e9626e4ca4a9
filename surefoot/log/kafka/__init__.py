"""The event log on Kafka, by aiokafka."""
