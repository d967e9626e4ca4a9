"""How large what is asked of the services may be."""

from surefoot.http.middleware import too_large

MOST_BYTES = 256 * 1024
"""The largest wish that fits, 200 lines whose articles have long names in escaped Unicode, has less than 180 KiB."""
TOO_LARGE = too_large(MOST_BYTES)
