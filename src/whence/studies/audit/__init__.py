"""Audit: experiments that test whether attention may be read as an explanation of a classifier.

An `AuditSubject` is a model with examples. An experiment replaces the model's attention, queries the model
again or trains another model; its effect is compared with a threshold that was stated before.
"""

from whence.studies.audit.audit import Audit, audit

__all__ = ["Audit", "audit"]
