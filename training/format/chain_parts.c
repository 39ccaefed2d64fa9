/* Checks of one envelope against the one before it that several others need, and those of a lease and a certificate. */
#include <string.h>

#include "training/format/certificate.h"
#include "training/format/chain_priv.h"

struct result chain_check_same(const struct run_envelope *envelope, const struct run_envelope *before, const char *const *names,
                               struct error *err)
{
    for (; *names != NULL; names++)
        if (!json_equal(run_member(envelope, *names), run_member(before, *names)))
            return failure(err, ERROR_DENIED, "%s: %s is not that of the %s", run_type_name(envelope->type), *names,
                           run_type_name(before->type));
    return SUCCESS;
}

struct result chain_names(const struct run_envelope *envelope, const char *path, const struct run_envelope *before,
                          struct error *err)
{
    if (strcmp(run_text(envelope, path), before->digest) == 0) return SUCCESS;
    return failure(err, ERROR_DENIED, "%s: it names another %s: %.71s", run_type_name(envelope->type),
                   run_type_name(before->type), run_text(envelope, path));
}

bool chain_is_text(const struct run_envelope *envelope, const char *path, const char *prefix, const char *text)
{
    const char *found = run_text(envelope, path);
    const size_t length = strlen(prefix);

    return strncmp(found, prefix, length) == 0 && strcmp(found + length, text) == 0;
}

struct result chain_check_life(const struct run_envelope *envelope, const char *from, struct error *err)
{
    const int64_t begin_ms = run_time(envelope, from), end_ms = run_time(envelope, "expires");

    if (end_ms > begin_ms && end_ms - begin_ms <= RUN_LIFE_MAX_MS) return SUCCESS;
    return failure(err, ERROR_DENIED, "%s: expires must be after %s, by at most 30 days", run_type_name(envelope->type), from);
}

struct result chain_check_lease(const struct run_chain *chain, struct error *err)
{
    static const char *const same[] = {"run", "audience", NULL};
    const struct run_envelope *lease = chain->lease, *order = chain->order;

    TRY(chain_check_life(lease, "not_before", err));
    TRY(chain_check_same(lease, order, same, err));
    TRY(chain_names(lease, "order", order, err));
    if (run_integer(lease, "attempt") > run_integer(order, "attempts"))
        return failure(err, ERROR_DENIED, "lease: the order allows no attempt %lld", (long long)run_integer(lease, "attempt"));
    if (run_integer(lease, "node") >= run_integer(order, "spec.nodes"))
        return failure(err, ERROR_DENIED, "lease: the order has no node %lld", (long long)run_integer(lease, "node"));
    if (run_time(lease, "not_before") >= run_time(order, "not_before") &&
        run_time(lease, "expires") <= run_time(order, "expires"))
        return SUCCESS;
    return failure(err, ERROR_DENIED, "lease: its life is not within the order's");
}

/* The lease names the key that signs it. The life begins by the runner's clock, but never before the lease. */
struct result run_chain_check_certificate(const struct run_chain *chain, struct error *err)
{
    static const char *const same[] = {"run", "audience", "attempt", "node", NULL};
    const struct run_envelope *certificate = chain->certificate, *lease = chain->lease;
    char key[ECDSA_THUMBPRINT_SIZE];
    OWNED(ecdsa_key) *certified = NULL;

    TRY(chain_check_life(certificate, "not_before", err));
    TRY(chain_check_same(certificate, lease, same, err));
    TRY(chain_names(certificate, "order", chain->order, err));
    TRY(chain_names(certificate, "lease", lease, err));
    certificate_thumbprint(certificate, CERTIFICATE_RUNNER, key);
    if (strcmp(key, run_text(lease, "runner.key")) != 0)
        return failure(err, ERROR_DENIED, "certificate: the lease is for another key");
    TRY(certificate_check_signer(certificate, CERTIFICATE_RUNNER, certificate, err));
    TRY(certificate_key(certificate, CERTIFICATE_ATTEMPT, &certified, err));
    certificate_thumbprint(certificate, CERTIFICATE_ATTEMPT, key);
    if (strcmp(key, run_text(lease, "runner.key")) == 0)
        return failure(err, ERROR_DENIED, "certificate: it is for the runner's own key, and not for one of this attempt alone");
    if (run_time(certificate, "not_before") >= run_time(lease, "not_before") &&
        run_time(certificate, "expires") <= run_time(lease, "expires"))
        return SUCCESS;
    return failure(err, ERROR_DENIED, "certificate: its life is not within the lease's");
}
