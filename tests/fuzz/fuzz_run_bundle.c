/* Bundles of training runs: none is accepted with keys of strangers, whatever it claims. */
#include <assert.h>

#include "training/format/bundle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char vkey[] = "sijil.example/audit+747f8459+ARMH5uQD5Cv8q1MzNnSd8FiJVPR2MoP2kbcukPYKg7ll";
    static struct ecdsa_key *stranger;
    struct run_trust trust = {.log_key = bytes_of_text(vkey)};
    OWNED(run_bundle) *bundle = NULL;
    struct error err = {0};

    if (stranger == NULL) assert(ecdsa_key_new(&stranger, &err).ok);
    trust.keyd = stranger;
    ecdsa_key_public(stranger, trust.root);
    assert(!run_bundle_check((struct bytes){data, size}, &trust, &bundle, &err).ok && bundle == NULL);
    assert(err.kind == ERROR_DENIED || err.kind == ERROR_INVALID || err.kind == ERROR_LIMIT);
    return 0;
}
