#include "documents/format/set_change.h"

#include <string.h>

#include "base/json.h"
#include "crypto/digest.h"
#include "documents/format/set_exceptions.h"

static struct result is_enough_if(enum set_change change, const struct document *document, const struct document_trust *trust,
                                  bool *is_enough_out, struct error *err)
{
    struct document_trust then = *trust;
    struct set_signers signers;

    then.change = change;
    TRY(set_count_signers(document, &then, &signers, err));
    *is_enough_out = set_is_signed_enough(&signers, &then);
    return SUCCESS;
}

/* Nobody is asked about a set that too few have signed, whatever it changes, nor about what does not matter any more. */
struct open_questions {
    bool change, exceptions;
};
static struct result find_questions(const struct document *document, const struct document_trust *trust,
                                    struct open_questions *open_out, struct error *err)
{
    bool for_all = false, for_some = false;

    TRY(is_enough_if(SET_LOOSENS, document, trust, &for_all, err));
    TRY(is_enough_if(SET_RESTRICTS, document, trust, &for_some, err));
    *open_out = (struct open_questions){for_some && !for_all, for_some && set_exception_count(document) > 0};
    return SUCCESS;
}

struct result set_judge(const struct set_judging *judging, const struct document *document, struct document_trust *trust,
                        bool *is_asked_out, struct error *err)
{
    struct set_change_query query = {judging->base,   judging->pinned, document_payload(document),
                                     judging->unused, trust->now_ms,   false};
    struct set_change_found found = {.change = SET_LOOSENS};
    struct open_questions open;

    *is_asked_out = false;
    if (document_root_is_one(trust) && set_exception_count(document) == 0) return SUCCESS;
    TRY(find_questions(document, trust, &open, err));
    query.is_about_exceptions = !open.change;
    const bool is_asked = (open.change || open.exceptions) && judging->check != NULL && judging->base.length > 0;
    if (is_asked) TRY(judging->check(&query, &found, err));
    trust->change = found.change;
    memcpy(trust->kept, found.kept, sizeof trust->kept);
    *is_asked_out = is_asked;
    return SUCCESS;
}

void set_policy_ids(const struct document *document, struct keyd_policy_ids *ids_out)
{
    const json_t *policies = json_object_get(document->json, "policies");
    const size_t count = json_array_size(policies);

    *ids_out = (struct keyd_policy_ids){.count = 0};
    memcpy(ids_out->digest, document->digest, sizeof ids_out->digest);
    for (size_t i = 0; i < count && i < SET_POLICIES_MAX; i++) {
        const char *id = json_text_of(json_object_get(json_array_get(policies, i), "metadata"), "id");
        if (id == NULL) return;
        sha256_of(bytes_of_text(id), ids_out->each[ids_out->count++]);
    }
}

struct result set_digest_of(const json_t *set, uint8_t digest_out[DOCUMENT_DIGEST_SIZE], struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(document_kind(DOCUMENT_POLICY_SET)->bytes_max);
    const unsigned before = json_lacks();
    OWNED_JSON rest = json_copy((json_t *)(uintptr_t)set); /* a shallow copy */

    if (rest == NULL || json_lacks() != before) return failure(err, ERROR_NO_MEMORY, "no memory for the digest of a policy set");
    (void)json_object_del(rest, "digest");
    (void)json_object_del(rest, "approval");
    TRY(json_write_canonical(&text, rest, err));
    sha256_of(buffer_bytes(&text), digest_out);
    return SUCCESS;
}
