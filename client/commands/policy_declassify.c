/* `sijil policy declassify`: a set in which labels that a policy has left lose their effect, with the digest of the evidence. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "client/commands/commands_priv.h"
#include "client/commands/policy_priv.h"
#include "client/commands/policy_source_priv.h"
#include "client/hash.h"
#include "policy/label.h"

struct result policy_digest_file(const char *path, char digest_out[DIGEST_TEXT_SIZE], struct error *err)
{
    OWNED(hasher) *hasher = NULL;
    OWNED_FD fd = -1;
    uint64_t hashed = 0;

    TRY(file_open(path, O_RDONLY, 0, &fd, err));
    TRY(hasher_new(DIGEST_SHA256, &hasher, err));
    TRY(hash_file(fd, UINT64_MAX, hasher, NULL, &hashed, err));
    if (hashed == 0) return failure(err, ERROR_INVALID, "%.200s is empty: it has no grounds", path);
    const struct digest digest = hasher_digest(hasher);
    digest_format(&digest, digest_out);
    return SUCCESS;
}

static struct result make_entry(const struct invocation *invocation, json_t **entry_out, struct error *err)
{
    char digest[DIGEST_TEXT_SIZE];
    OWNED_JSON scopes = json_array();

    TRY(policy_digest_file(invocation_option(invocation, 'e'), digest, err));
    for (size_t i = 2; i < invocation->operand_count; i++)
        if (json_array_append_new(scopes, json_string(invocation->operands[i])) != 0)
            return failure(err, ERROR_INVALID, "%.200s is no scope", invocation->operands[i]);
    *entry_out = json_pack("{s:s, s:s, s:s, s:O}", "evidence", digest, "policy", invocation->operands[1], "reason",
                           invocation_option(invocation, 'r'), "scope", scopes);
    return *entry_out == NULL ? api_no_memory(err) : SUCCESS;
}

static struct result add_entry(json_t *document, json_t *entry, struct error *err)
{
    json_t *array = json_object_get(document, "declassified");

    if (array == NULL) {
        array = json_array();
        if (json_object_set_new(document, "declassified", array) != 0) return api_no_memory(err);
    }
    return json_array_append(array, entry) == 0 ? SUCCESS : api_no_memory(err);
}

/* The policy may be gone, which is why somebody declassifies; a misspelt name would lift nothing, and look the same. */
static void tell_unknown(const json_t *set, const char *policy)
{
    const json_t *policies = json_object_get(set, "policies");

    for (size_t i = 0; i < json_array_size(policies); i++) {
        const char *id = json_text_of(json_object_get(json_array_get(policies, i), "metadata"), "id");
        if (id != NULL && strcmp(id, policy) == 0) return;
    }
    if (strcmp(policy, LABEL_CARRIED_POLICY) != 0)
        (void)fprintf(stderr, "The set has no policy %.64s: if none of this id was ever in force, labels stay as they are.\n",
                      policy);
}

struct result command_policy_declassify(struct invocation *invocation, struct error *err)
{
    struct buffer OWNED_BUFFER payload = BUFFER(POLICY_SET_BYTES_MAX);
    struct policy_source OWNED_SOURCE source = {.name = NULL};
    OWNED(policy_set) *next = NULL;
    OWNED_JSON entry = NULL;

    if (invocation_option(invocation, 'r') == NULL || invocation_option(invocation, 'e') == NULL)
        return line_check(invocation, failure(err, ERROR_INVALID, "--reason and --evidence are needed"));
    TRY(make_entry(invocation, &entry, err));
    TRY(policy_source_read(invocation, invocation->operands[0], &source, err));
    TRY(add_entry(source.document, entry, err));
    TRY(policy_compose(source.document, policy_set_epoch(source.set) + 1, &payload, err));
    TRY(policy_set_compile(buffer_bytes(&payload), &next, err));
    tell_unknown(policy_set_json(source.set), invocation->operands[1]);
    TRY(policy_show_changes(source.set, next, err));
    return policy_write_payload(invocation, buffer_bytes(&payload), err);
}
