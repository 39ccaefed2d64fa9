#include "audit/format/policy_load.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "crypto/digest.h"

void policy_load_detail(struct bytes envelope, uint64_t epoch, const uint8_t digest[32], char detail_out[POLICY_LOAD_DETAIL_SIZE])
{
    const struct digest outer = digest_of(DIGEST_SHA256, envelope);
    struct digest inner = {.algorithm = DIGEST_SHA256};
    char outer_text[DIGEST_TEXT_SIZE], inner_text[DIGEST_TEXT_SIZE];

    memcpy(inner.bytes, digest, SHA256_SIZE);
    digest_format(&outer, outer_text);
    digest_format(&inner, inner_text);
    const int length =
        snprintf(detail_out, POLICY_LOAD_DETAIL_SIZE, "%s %llu %s", outer_text, (unsigned long long)epoch, inner_text);
    assert(length > 0 && length < POLICY_LOAD_DETAIL_SIZE);
}
