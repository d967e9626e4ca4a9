"""The shop's dead-letter service: who may do what, where alerts go, how long letters are kept. The engine is
`surefoot.dlq`."""
