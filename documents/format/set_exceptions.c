#include "documents/format/set_exceptions.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "base/uuid.h"
#include "crypto/digest.h"
#include "documents/format/document_priv.h"

#define ROBOTS "sijil:registry" /* the issuer of the registry's own robots, as the log names it */

size_t set_exception_count(const struct document *document)
{
    return json_array_size(json_object_get(document->json, "exceptions"));
}

bool set_exception_is_kept(const struct document_trust *trust, size_t index)
{
    return index < SET_EXCEPTIONS_MAX && (trust->kept[index / 8] >> index % 8 & 1) != 0;
}

void set_exception_keep(uint8_t kept[SET_EXCEPTIONS_MAX / 8], size_t index)
{
    if (index < SET_EXCEPTIONS_MAX) kept[index / 8] |= (uint8_t)(1U << index % 8);
}

bool set_person_principal(const json_t *person, char principal_out[SET_PERSON_SIZE])
{
    const char *issuer = json_text_of(person, "iss"), *subject = json_text_of(person, "sub");
    struct buffer OWNED_BUFFER names = BUFFER(64 * 1024);
    char hex[2 * SHA256_SIZE + 1];
    uint8_t digest[SHA256_SIZE];
    struct error ignored;
    struct uuid robot;

    if (issuer == NULL || subject == NULL) return false;
    if (strcmp(issuer, ROBOTS) == 0) {
        if (!uuid_parse(bytes_of_text(subject), &robot)) return false;
        (void)snprintf(principal_out, SET_PERSON_SIZE, "robot:%s", subject);
        return true;
    }
    if (!buffer_format(&names, &ignored, "%s\n%s", issuer, subject).ok) return false;
    sha256_of(buffer_bytes(&names), digest);
    text_hex(digest, sizeof digest, hex);
    (void)snprintf(principal_out, SET_PERSON_SIZE, "ext:%s", hex);
    return true;
}

static bool is_principal(const uint8_t digest[DOCUMENT_DIGEST_SIZE], const char *principal)
{
    uint8_t wanted[SHA256_SIZE];

    sha256_of(bytes_of_text(principal), wanted);
    return memcmp(digest, wanted, sizeof wanted) == 0;
}

struct result set_person_has_signed(const struct document *document, const struct document_trust *trust, const char *principal,
                                    bool *has_signed_out, struct error *err)
{
    bool has_signed = false;

    for (size_t i = 0; i < DOCUMENT_APPROVERS_MAX && !has_signed; i++) {
        const struct document_approver *approver = &trust->approvers[i];
        if (document_approver_counts(approver, trust->now_ms) && is_principal(approver->principal, principal))
            TRY(document_is_signed_by(document, approver->point, &has_signed, err));
    }
    if (!has_signed && !document_root_is_one(trust) && is_principal(trust->terms.holder, principal))
        TRY(document_is_signed_by(document, trust->root, &has_signed, err));
    *has_signed_out = has_signed;
    return SUCCESS;
}

static const char *id_of(const json_t *exception)
{
    const char *id = json_text_of(exception, "id");

    return id == NULL ? "?" : id;
}

static struct result check_approvals(const struct document *document, const struct document_trust *trust, const json_t *exception,
                                     struct error *err)
{
    const json_t *approvals = json_object_get(exception, "approvals");

    if (json_array_size(approvals) > ROOT_PERSONS_MAX)
        return failure(err, ERROR_DENIED, "the exception %.64s names more approvers than can sign a set, which are %d",
                       id_of(exception), ROOT_PERSONS_MAX);
    for (size_t i = 0; i < json_array_size(approvals); i++) {
        const json_t *person = json_array_get(approvals, i);
        char principal[SET_PERSON_SIZE];
        bool has_signed = false;
        if (set_person_principal(person, principal)) TRY(set_person_has_signed(document, trust, principal, &has_signed, err));
        if (!has_signed)
            return failure(err, ERROR_DENIED, "the exception %.64s names an approver who has not signed the set: %.100s",
                           id_of(exception), json_text_of(person, "sub") == NULL ? "?" : json_text_of(person, "sub"));
    }
    return SUCCESS;
}

/* Neither as an approver nor as one of the persons that the set needs. */
static struct result check_requester(const struct document *document, const struct document_trust *trust,
                                     const struct set_signers *signers, const json_t *exception, struct error *err)
{
    static const uint8_t no_key[ECDSA_PUBLIC_SIZE];
    const json_t *requester = json_object_get(exception, "requested_by"), *approvals = json_object_get(exception, "approvals");
    char principal[SET_PERSON_SIZE];
    uint8_t digest[SHA256_SIZE];
    unsigned persons = 0;

    if (!set_person_principal(requester, principal))
        return failure(err, ERROR_DENIED, "the exception %.64s does not say who asks for it", id_of(exception));
    sha256_of(bytes_of_text(principal), digest);
    for (size_t i = 0; i < json_array_size(approvals); i++)
        if (json_equal(json_array_get(approvals, i), requester) == 1)
            return failure(err, ERROR_DENIED, "the exception %.64s names the person that asks for it as an approver",
                           id_of(exception));
    TRY(document_count_persons(document, trust, &(struct document_own){no_key, digest}, &persons, err));
    if (persons >= signers->needed) return SUCCESS;
    return failure(err, ERROR_DENIED,
                   "the exception %.64s needs the signatures of %u persons beside the one that asks for it, and has those of %u",
                   id_of(exception), signers->needed, persons);
}

/* The grounds are files, by their digests: a name alone would be nothing that anybody could look at. */
struct result set_exception_check_evidence(const json_t *exception, struct error *err)
{
    const json_t *evidence = json_object_get(exception, "evidence"), *value = NULL;
    const char *name = NULL;

    json_object_foreach ((json_t *)(uintptr_t)evidence, name, value) {
        struct digest digest;
        struct error ignored;
        const char *text = json_string_value(value);
        if (text != NULL && digest_parse(bytes_of_text(text), &digest, &ignored).ok) return SUCCESS;
    }
    return failure(err, ERROR_DENIED, "the exception %.64s has no evidence: the SHA-256 of a file, as sha256:...",
                   id_of(exception));
}

struct result set_check_exceptions(const struct document *document, const struct document_trust *trust,
                                   const struct set_signers *signers, struct error *err)
{
    const json_t *exceptions = json_object_get(document->json, "exceptions");

    if (json_array_size(exceptions) > SET_EXCEPTIONS_MAX) /* no reader takes more, and each one costs signatures */
        return failure(err, ERROR_DENIED, "a policy set has at most %d exceptions", SET_EXCEPTIONS_MAX);
    for (size_t i = 0; i < json_array_size(exceptions); i++) {
        const json_t *exception = json_array_get(exceptions, i);
        if (set_exception_is_kept(trust, i)) continue;
        TRY(set_exception_check_evidence(exception, err));
        TRY(check_requester(document, trust, signers, exception, err));
        TRY(check_approvals(document, trust, exception, err));
    }
    return SUCCESS;
}
