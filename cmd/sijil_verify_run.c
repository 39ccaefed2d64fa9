/* sijil-verify run: checks the bundle of a training run, and makes its decisions again. */
#include "cmd/sijil_verify_run.h"

#include "policy/run_verify.h"

struct result run_verify_answer(const struct run_request *request, struct bytes text, struct buffer *answer, struct error *err)
{
    OWNED(ecdsa_key) *signer = NULL, *root = NULL;
    OWNED(run_bundle) *bundle = NULL;
    struct run_repeated repeated = {.decisions = 0};

    TRY(ecdsa_key_load(request->signer, &signer, err));
    TRY(ecdsa_key_load(request->root, &root, err));
    const struct run_verify_keys keys = {request->key, signer, root};
    TRY(run_verify(text, &keys, &bundle, &repeated, err));
    return request->json ? run_bundle_json(bundle, &repeated, answer, err) : run_bundle_text(bundle, &repeated, answer, err);
}
