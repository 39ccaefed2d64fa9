/* Sets and their envelopes: an accepted set has its stated digest. */
#include <assert.h>
#include <string.h>

#include "policy/set.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct bytes input = {data, size};
    OWNED(policy_set) *set = NULL;
    static struct ecdsa_key *approver;
    struct policy_set *signed_set = NULL;
    OWNED_JSON json = NULL;
    struct error err;

    if (approver == NULL) assert(ecdsa_key_new(&approver, &err).ok);
    assert(!policy_set_read(input, approver, &signed_set, &err).ok); /* nobody signs with that key */
    if (!policy_set_compile(input, &set, &err).ok) return 0;
    assert(json_read(input, POLICY_SET_BYTES_MAX, &json, &err).ok);
    assert(strcmp(json_text_of(json, "digest"), policy_set_digest(set)) == 0);
    return 0;
}
