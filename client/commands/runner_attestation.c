#include "client/commands/runner_attestation.h"

#include <stdio.h>

#include "client/commands/api_priv.h"
#include "client/commands/policy_priv.h"
#include "crypto/digest.h"

struct result runner_attestation_read(const struct invocation *invocation, json_t **attestation_out, struct error *err)
{
    const char *by = invocation_option(invocation, 'b'), *evidence = invocation_option(invocation, 'E'), *network = NULL;
    OWNED_JSON networks = json_array();
    char digest[DIGEST_TEXT_SIZE];

    for (unsigned at = 0; (network = invocation_next_option(invocation, 'N', &at)) != NULL;)
        if (json_array_append_new(networks, json_string(network)) != 0) return api_no_memory(err);
    *attestation_out = NULL;
    if (by == NULL && evidence == NULL && json_array_size(networks) == 0) return SUCCESS;
    if (by == NULL || evidence == NULL || json_array_size(networks) == 0)
        return failure(err, ERROR_INVALID, "an attested runner needs --attested-by, --evidence and --network");
    TRY(policy_digest_file(evidence, digest, err));
    *attestation_out = json_pack("{s:s, s:s, s:O}", "by", by, "evidence", digest, "networks", networks);
    return *attestation_out == NULL ? api_no_memory(err) : SUCCESS;
}

void runner_attestation_show(const json_t *body)
{
    const json_t *attestation = json_object_get(body, "attestation"), *networks = json_object_get(attestation, "networks");

    if (attestation == NULL) return;
    (void)fprintf(stderr, "  attested by    %s\n  evidence       %s\n  only from     ", json_text_of(attestation, "by"),
                  json_text_of(attestation, "evidence"));
    for (size_t i = 0; i < json_array_size(networks); i++)
        (void)fprintf(stderr, " %s", json_string_value(json_array_get(networks, i)));
    (void)fprintf(stderr, "\n");
}
