/*
 * documents/format/set_exceptions.h -- who must have signed a policy set that brings exceptions (docs/policies.md, "Exceptions").
 *
 * An exception names a person that asks for it and others that approve it. The names alone are worth nothing: each of these approvers must have signed
 * the set with a key of its own, and the one that asks does not count. An exception that the set before it has, too, was signed then.
 */
#pragma once

#include "documents/format/set_approval.h"

size_t set_exception_count(const struct document *document);
bool set_exception_is_kept(const struct document_trust *trust, size_t index);
void set_exception_keep(uint8_t kept[SET_EXCEPTIONS_MAX / 8], size_t index);

#define SET_PERSON_SIZE 70 /* "ext:" and 64 hex digits, or "robot:" and a UUID */
/** The principal of {"iss", "sub"}, as documents name it: a robot of the registry has the issuer "sijil:registry", and its id as "sub". False: it is no person. */
bool set_person_principal(const json_t *person, char principal_out[SET_PERSON_SIZE]);
/** Whether a key of this principal has signed. ERROR_NO_MEMORY. */
RESULT set_person_has_signed(const struct document *document, const struct document_trust *trust, const char *principal,
                             bool *has_signed_out, struct error *err);

/** An exception names the SHA-256 of a file with its grounds. ERROR_DENIED. */
RESULT set_exception_check_evidence(const json_t *exception, struct error *err);
/** `signers` as set_count_signers() found them. ERROR_DENIED names the exception and what it lacks. ERROR_NO_MEMORY. */
RESULT set_check_exceptions(const struct document *document, const struct document_trust *trust,
                            const struct set_signers *signers, struct error *err);
