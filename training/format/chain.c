#include <string.h>

#include "base/text.h"
#include "crypto/digest.h"
#include "training/format/chain_priv.h"

/* Whether `at_ms`, by another clock, is within the life of a request or an approval. */
static struct result check_within(const struct run_envelope *envelope, int64_t at_ms, const char *what, struct error *err)
{
    if (at_ms + RUN_CLOCK_SKEW_MS >= run_time(envelope, "issued_at") && at_ms < run_time(envelope, "expires")) return SUCCESS;
    return failure(err, ERROR_DENIED, "%s: it is not within the life of the %s", what, run_type_name(envelope->type));
}

/* ---- request, approval ---- */

static bool is_claimed_by(const struct run_envelope *request, const char *issuer)
{
    return run_member(request, "claims") != NULL && strcmp(run_text(request, "claims.issuer"), issuer) == 0;
}

bool run_is_of_rule(const struct run_envelope *request)
{
    return is_claimed_by(request, RUN_RULE_ISSUER);
}

int64_t run_approvals_needed(const struct run_envelope *request, int64_t asked)
{
    const bool is_nobody = run_is_of_rule(request) || is_claimed_by(request, RUN_REGISTRY_ISSUER);

    return asked > 0 && is_nobody ? asked + 1 : asked;
}

/* Whether the requester is the hash of issuer and subject. */
static struct result is_hashed(const struct run_envelope *request, bool *is_it_out, struct error *err)
{
    const char *requester = run_text(request, "requester");
    struct buffer OWNED_BUFFER named = BUFFER(1100); /* issuer, line feed, subject: 512 bytes each */
    uint8_t digest[SHA256_SIZE];
    char hex[2 * SHA256_SIZE + 1];

    TRY(buffer_format(&named, err, "%s\n%s", run_text(request, "claims.issuer"), run_text(request, "claims.subject")));
    sha256_of(buffer_bytes(&named), digest);
    text_hex(digest, sizeof digest, hex);
    *is_it_out = strncmp(requester, "ext:", 4) == 0 && strcmp(requester + 4, hex) == 0;
    return SUCCESS;
}

/* When keyd signs for a token, the requester is the token's subject. A person's name stands nowhere; earlier requests had it. */
static struct result check_claims(const struct run_envelope *request, struct error *err)
{
    const char *requester = run_text(request, "requester"), *subject = run_text(request, "claims.subject");
    const bool is_robot = is_claimed_by(request, RUN_REGISTRY_ISSUER);
    const bool is_person = !is_robot && !run_is_of_rule(request);
    bool is_subject = false;

    if (!is_robot) TRY(is_hashed(request, &is_subject, err));
    if (is_robot) is_subject = strncmp(requester, "robot:", 6) == 0 && strcmp(requester + 6, subject) == 0;
    if (is_person && strncmp(requester, "ext:", 4) == 0 && strcmp(requester, subject) == 0) is_subject = true;
    return is_subject ? SUCCESS : failure(err, ERROR_DENIED, "request: its claims are of another person than its requester");
}

static struct result check_request(const struct run_envelope *request, struct error *err)
{
    const char *project = run_text(request, "project");
    const json_t *outputs = run_member(request, "spec.outputs");
    const size_t length = strlen(project);

    TRY(chain_check_life(request, "issued_at", err));
    if (run_member(request, "claims") != NULL) TRY(check_claims(request, err));
    for (size_t i = 0; i < json_array_size(outputs); i++) {
        const char *repository = json_text_of(json_array_get(outputs, i), "repository");
        if (strncmp(repository, project, length) != 0 || repository[length] != '/')
            return failure(err, ERROR_DENIED, "request: the output repository %.120s is not in the project %.120s", repository,
                           project);
    }
    return SUCCESS;
}

static struct result check_approval(const struct run_envelope *request, const struct run_envelope *approval, struct error *err)
{
    static const char *const same[] = {"run", "audience", NULL};

    TRY(chain_check_life(approval, "issued_at", err));
    TRY(chain_check_same(approval, request, same, err));
    TRY(chain_names(approval, "request", request, err));
    if (strcmp(run_text(approval, "approver"), run_text(request, "requester")) == 0)
        return failure(err, ERROR_DENIED, "approval: a person can't approve their own request");
    return check_within(request, run_time(approval, "issued_at"), "approval", err);
}

static struct result check_approvals(const struct run_chain *chain, struct error *err)
{
    for (size_t i = 0; i < chain->approval_count; i++) {
        TRY(check_approval(chain->request, chain->approvals[i], err));
        for (size_t j = 0; j < i; j++)
            if (strcmp(run_text(chain->approvals[i], "approver"), run_text(chain->approvals[j], "approver")) == 0)
                return failure(err, ERROR_DENIED, "approval: two approvals are of one person, and count once");
    }
    return SUCCESS;
}

/* ---- order ---- */

static bool has_text(const json_t *list, const char *text)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (strcmp(json_string_value(json_array_get(list, i)), text) == 0) return true;
    return false;
}

static struct result check_named_approvals(const struct run_chain *chain, struct error *err)
{
    const json_t *named = run_member(chain->order, "approvals");

    if (json_array_size(named) != chain->approval_count)
        return failure(err, ERROR_DENIED, "order: it names %zu approvals, and there are %zu", json_array_size(named),
                       chain->approval_count);
    for (size_t i = 0; i < chain->approval_count; i++) {
        if (strcmp(json_string_value(json_array_get(named, i)), chain->approvals[i]->digest) != 0)
            return failure(err, ERROR_DENIED, "order: its approval %zu is another one", i + 1);
        TRY(check_within(chain->approvals[i], run_time(chain->order, "not_before"), "order", err));
    }
    return SUCCESS;
}

static struct result check_obligations(const struct run_chain *chain, struct error *err)
{
    const int64_t asked = run_integer(chain->order, "obligations.approvals"),
                  needed = run_approvals_needed(chain->request, asked);

    if ((int64_t)chain->approval_count < asked)
        return failure(err, ERROR_DENIED, "order: the policies ask for %lld approvals, and there are %zu", (long long)asked,
                       chain->approval_count);
    if ((int64_t)chain->approval_count < needed)
        return failure(err, ERROR_DENIED,
                       "order: a request by a trust rule or a robot's token needs one approval more than the policies ask for: "
                       "%lld, and there are %zu",
                       (long long)needed, chain->approval_count);
    if (json_is_true(run_member(chain->order, "obligations.signed_request")) && run_member(chain->request, "claims") != NULL)
        return failure(err, ERROR_DENIED, "order: the policies ask for a request that its requester has signed");
    return SUCCESS;
}

static struct result check_order(const struct run_chain *chain, struct error *err)
{
    static const char *const same[] = {"run", "audience", "project", "requester", "spec", NULL};
    const json_t *allowed = run_member(chain->order, "jurisdictions");

    TRY(chain_check_life(chain->order, "not_before", err));
    TRY(chain_check_same(chain->order, chain->request, same, err));
    TRY(chain_names(chain->order, "request", chain->request, err));
    TRY(check_named_approvals(chain, err));
    TRY(check_obligations(chain, err));
    for (size_t i = 0; i < json_array_size(allowed); i++)
        if (!has_text(run_member(chain->request, "spec.jurisdictions"), json_string_value(json_array_get(allowed, i))))
            return failure(err, ERROR_DENIED, "order: the request does not allow the jurisdiction %.32s",
                           json_string_value(json_array_get(allowed, i)));
    return check_within(chain->request, run_time(chain->order, "not_before"), "order", err);
}

/* ---- refusal ---- */

static struct result check_refusal(const struct run_chain *chain, struct error *err)
{
    static const char *const same[] = {"run", "audience", NULL};
    const struct run_envelope *refusal = chain->refusal, *lease = chain->lease;
    const int64_t at_ms = run_time(refusal, "at");

    TRY(chain_check_same(refusal, lease, same, err));
    TRY(chain_names(refusal, "lease", lease, err));
    if (strcmp(refusal->dsse->signatures[0].keyid, run_text(lease, "runner.key")) != 0)
        return failure(err, ERROR_DENIED, "refusal: the lease is for another key");
    if (at_ms + RUN_CLOCK_SKEW_MS >= run_time(lease, "not_before") && at_ms <= run_time(lease, "expires") + RUN_CLOCK_SKEW_MS)
        return SUCCESS;
    return failure(err, ERROR_DENIED, "refusal: it was not made within the lease");
}

struct result run_chain_check(const struct run_chain *chain, struct error *err)
{
    TRY(check_request(chain->request, err));
    TRY(check_approvals(chain, err));
    if (chain->order == NULL) return SUCCESS;
    TRY(check_order(chain, err));
    if (chain->lease == NULL) return SUCCESS;
    TRY(chain_check_lease(chain, err));
    if (chain->certificate != NULL) TRY(run_chain_check_certificate(chain, err));
    if (chain->refusal != NULL) return check_refusal(chain, err);
    if (chain->result == NULL) return SUCCESS;
    TRY(chain_check_result(chain, err));
    TRY(chain_check_peers(chain, err));
    return chain->admission == NULL ? SUCCESS : chain_check_admission(chain, err);
}
