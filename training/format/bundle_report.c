#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/terminal_text.h"
#include "training/format/bundle.h"
#include "training/format/certificate.h"

#define DETAILS   "predicate.runDetails."
#define LINE_ROOM 1024 /* the longest has a reason of 256 bytes */

/* Adds one line, whatever its texts contain. Only this file makes lines, so no text of others can look like a proven line. */
__attribute__((format(printf, 3, 4))) static struct result add_line(struct buffer *text, struct error *err, const char *format,
                                                                    ...)
{
    char line[LINE_ROOM];
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    terminal_sanitize(line);
    TRY(buffer_add_text(text, line, err));
    return buffer_add_u8(text, '\n', err);
}

static struct result write_result(const struct run_chain *chain, struct buffer *text, struct error *err)
{
    const json_t *subjects = run_member(chain->result, "subject");

    TRY(add_line(text, err, "  - the runner %s signed with this key that it fetched exactly the order's code and inputs,",
                 run_text(chain->lease, "runner.id")));
    TRY(add_line(text, err, "    and that the run %s (exit status %lld), under %s, from %s to %s, with:",
                 run_text(chain->result, DETAILS "sijil_outcome.status"),
                 (long long)run_integer(chain->result, DETAILS "sijil_outcome.exit"),
                 run_text(chain->result, DETAILS "sijil_isolation"), run_text(chain->result, DETAILS "metadata.startedOn"),
                 run_text(chain->result, DETAILS "metadata.finishedOn")));
    for (size_t i = 0; i < json_array_size(subjects); i++) {
        const json_t *subject = json_array_get(subjects, i);
        TRY(add_line(text, err, "      %s  sha256:%s", json_text_of(subject, "name"),
                     json_text_of(json_object_get(subject, "digest"), "sha256")));
    }
    return SUCCESS;
}

/* Of the runner's document, which was verified; NULL: it names none. */
static const json_t *nodes_of(const struct run_bundle *bundle)
{
    const char *key = run_text(bundle->chain.lease, "runner.key");

    for (size_t i = 0; i < bundle->keys.count; i++) {
        const struct document *document = bundle->keys.each[i].document;
        if (document->kind == DOCUMENT_RUNNER && strcmp(document->name, key) == 0)
            return json_object_get(json_object_get(document->json, "body"), "nodes");
    }
    return NULL;
}

static struct result write_lease(const struct run_bundle *bundle, struct buffer *text, struct error *err)
{
    const struct run_envelope *lease = bundle->chain.lease;
    const json_t *nodes = nodes_of(bundle), *node = NULL;
    size_t i = 0;

    TRY(add_line(text, err, "  - sijil-keyd leased it to the runner %s alone, as attempt %lld of node %lld;",
                 run_text(lease, "runner.id"), (long long)run_integer(lease, "attempt"), (long long)run_integer(lease, "node")));
    if (nodes == NULL) return SUCCESS;
    TRY(buffer_add_text(text, "  - approvers signed that its pods may be on these nodes of a Kubernetes cluster alone:\n", err));
    json_array_foreach (nodes, i, node) TRY(add_line(text, err, "      %s", json_string_value(node)));
    return SUCCESS;
}

/* The link from the runner's document to the result. */
static struct result write_certificate(const struct run_chain *chain, struct buffer *text, struct error *err)
{
    char key[ECDSA_THUMBPRINT_SIZE];

    certificate_thumbprint(chain->certificate, CERTIFICATE_ATTEMPT, key);
    return add_line(text, err, "  - this runner certified the key %s for this order, attempt and node alone, from %s to %s;", key,
                    run_text(chain->certificate, "not_before"), run_text(chain->certificate, "expires"));
}

/* The other nodes: their outputs do not count, so one line says all of each. */
static struct result write_peers(const struct run_chain *chain, struct buffer *text, struct error *err)
{
    TRY(add_line(
        text, err,
        "  - all %zu nodes of the attempt have their own lease, and a result by a key that the runner of that lease certified:",
        chain->peer_count + 1));
    for (size_t i = 0; i < chain->peer_count; i++) {
        const struct run_peer *peer = &chain->peers[i];
        const json_t *log = json_array_get(run_member(peer->result, "subject"), 0);
        TRY(add_line(text, err, "      node %zu: the runner %s signed that it %s, with the log sha256:%s", i + 1,
                     run_text(peer->lease, "runner.id"), run_text(peer->result, DETAILS "sijil_outcome.status"),
                     json_text_of(json_object_get(log, "digest"), "sha256")));
    }
    return SUCCESS;
}

static bool is_claimed(const struct run_chain *chain)
{
    return run_member(chain->request, "claims") != NULL;
}

/* A claimed subject is any text: add_line() shows it without characters that steer a terminal. */
static struct result write_requester(const struct run_chain *chain, struct buffer *text, struct error *err)
{
    const char *requester = run_text(chain->request, "requester");

    if (!is_claimed(chain)) return add_line(text, err, "  - %s asked for it, with a key that was in force;", requester);
    TRY(add_line(text, err, "  - %s asked for it, by a token of the registry that sijil-keyd verified;", requester));
    if (!run_is_of_rule(chain->request)) return SUCCESS;
    return add_line(
        text, err,
        "  - this is the trust rule %s: approvers, or the root, signed that it may train with all of these repositories;",
        run_text(chain->request, "claims.subject"));
}

static struct result write_asked(const struct run_bundle *bundle, struct buffer *text, struct error *err)
{
    const struct run_chain *chain = &bundle->chain;

    TRY(write_requester(chain, text, err));
    for (size_t i = 0; i < chain->approval_count; i++)
        TRY(add_line(text, err, "  - %s approved it, with a key that was in force;", run_text(chain->approvals[i], "approver")));
    return add_line(text, err, "  - sijil-keyd ordered exactly that, from %s to %s; the log recorded it as entry %" PRIu64 ";",
                    run_text(chain->order, "not_before"), run_text(chain->order, "expires"), bundle->event.index);
}

static struct result write_terms(const struct run_repeated *repeated, struct buffer *text, struct error *err)
{
    if (!repeated->has_terms) return SUCCESS;
    TRY(buffer_add_text(text, "  - the signed policy set alone", err));
    if (repeated->manifests > 0)
        TRY(buffer_format(text, err, ", with the labels that %zu of the %zu artifacts' manifests state,", repeated->manifests,
                          repeated->artifacts));
    return buffer_add_text(text,
                           " asks for no more approvals than the order, for a signed request\n"
                           "    only if the order does, and allows each of the order's jurisdictions;\n",
                           err);
}

static struct result write_last_terms(const struct run_repeated *repeated, struct buffer *text, struct error *err)
{
    if (!repeated->has_last_terms) return SUCCESS;
    return buffer_add_text(
        text,
        "  - nor did the policy set of the admission ask for more approvals, or for a signed request; it allowed\n"
        "    the run in the region of each of its runners;\n",
        err);
}

static struct result write_proven(const struct run_bundle *bundle, const struct run_repeated *repeated, struct buffer *text,
                                  struct error *err)
{
    const struct run_chain *chain = &bundle->chain;

    TRY(write_asked(bundle, text, err));
    if (repeated->decisions > 0)
        TRY(buffer_add_text(text, "  - the order's recorded decision follows from the signed policy set;\n", err));
    TRY(write_terms(repeated, text, err));
    TRY(write_last_terms(repeated, text, err));
    if (chain->lease != NULL) TRY(write_lease(bundle, text, err));
    if (chain->certificate != NULL) TRY(write_certificate(chain, text, err));
    if (chain->result != NULL) TRY(write_result(chain, text, err));
    if (chain->peer_count > 0) TRY(write_peers(chain, text, err));
    if (chain->refusal != NULL)
        TRY(add_line(text, err, "  - this runner refused it at %s: %s (%s).", run_text(chain->refusal, "at"),
                     run_text(chain->refusal, "reason"), run_text(chain->refusal, "check")));
    if (chain->admission != NULL)
        TRY(add_line(text, err, "  - sijil-keyd admitted these outputs at %s.",
                     run_text(chain->admission, "predicate.timeVerified")));
    return SUCCESS;
}

/* ---- whom to trust in addition ---- */

/* With the assurance 1 nobody vouches that the key is out of reach; with more, the approvers do. */
static bool is_declared(const struct run_bundle *bundle)
{
    return run_bundle_assurance(bundle) <= 1;
}

static struct result write_place(const struct runner_key *runner, struct buffer *text, struct error *err)
{
    struct buffer OWNED_BUFFER places = BUFFER(LINE_ROOM);

    for (size_t i = 0; i < json_array_size(runner->jurisdictions); i++)
        TRY(buffer_format(&places, err, "%s %s", i == 0 ? "" : ",", json_string_value(json_array_get(runner->jurisdictions, i))));
    TRY(add_line(text, err, "    the pool %s, the region %s and the jurisdictions%s;", runner->pool, runner->region,
                 buffer_text(&places)));
    if (runner->attestation == NULL) return SUCCESS;
    return add_line(text, err, "    they attested that it is there by the evidence %s;",
                    json_text_of(runner->attestation, "evidence"));
}

/* A runner may have several nodes, and is named once. */
static bool is_named_before(const struct run_bundle *bundle, size_t index)
{
    const char *runner = run_text(bundle->peers[index].lease, "runner.id");

    if (strcmp(runner, run_text(bundle->chain.lease, "runner.id")) == 0) return true;
    for (size_t i = 0; i < index; i++)
        if (strcmp(runner, run_text(bundle->peers[i].lease, "runner.id")) == 0) return true;
    return false;
}

static struct result write_other_places(const struct run_bundle *bundle, struct buffer *text, struct error *err)
{
    for (size_t i = 0; i < bundle->chain.peer_count; i++) {
        const struct runner_key *runner = &bundle->others[i];
        if (is_named_before(bundle, i)) continue;
        TRY(add_line(text, err,
                     "  - for node %zu likewise: root of the machine of the runner %s, and the approvers that put it into", i + 1,
                     run_text(bundle->peers[i].lease, "runner.id")));
        TRY(write_place(runner, text, err));
        TRY(add_line(text, err, "    they signed the assurance %lld, and at least the isolation %s;",
                     (long long)runner->assurance, runner->isolation));
    }
    return SUCCESS;
}

/* A document does not say whether a scheduler starts what the runner runs, so the answer is for both. */
static struct result write_trusted(const struct run_bundle *bundle, struct buffer *text, struct error *err)
{
    const struct runner_key *runner = &bundle->runner;

    if (!bundle->has_runner) return SUCCESS;
    TRY(buffer_add_text(text, "\nWhom you must trust in addition:\n", err));
    TRY(add_line(text, err, "  - root of the machine of the runner %s, and the approvers that put it into",
                 run_text(bundle->chain.lease, "runner.id")));
    TRY(write_place(runner, text, err));
    TRY(add_line(text, err, "    they signed the assurance %lld, and at least the isolation %s;", (long long)runner->assurance,
                 runner->isolation));
    TRY(write_other_places(bundle, text, err));
    if (is_declared(bundle))
        return buffer_add_text(
            text,
            "  - all that can start programs on this machine, and the administrators of a cluster (Slurm, Kubernetes)\n"
            "    that it is a part of: with the assurance 1 nobody vouches that they can't use its key.\n",
            err);
    return buffer_add_text(
        text,
        "  - but not the users of this machine, and not the administrators of a cluster (Slurm, Kubernetes) that it is a\n"
        "    part of, if they are not root there: the approvers vouch that these can't use its key.\n",
        err);
}

static bool lacks_nodes(const struct run_chain *chain)
{
    return run_integer(chain->order, "spec.nodes") > (int64_t)chain->peer_count + 1;
}

static struct result write_unproven_terms(const struct run_bundle *bundle, const struct run_repeated *repeated,
                                          struct buffer *text, struct error *err)
{
    if (!repeated->has_terms)
        return buffer_add_text(text, "  - that the policies asked for no more approvals: the bundle has no policy sets;\n", err);
    if (bundle->chain.admission != NULL && !repeated->has_last_terms)
        TRY(buffer_add_text(
            text,
            "  - that the policies allowed the run at the admission, and asked for no more: the bundle does not have the set\n"
            "    that it names;\n",
            err));
    if (repeated->manifests < repeated->artifacts)
        TRY(buffer_format(
            text, err,
            "  - that the manifests of code, image, checkpoint and inputs state no stricter labels: the bundle has %zu\n"
            "    of %zu manifests;\n",
            repeated->manifests, repeated->artifacts));
    return buffer_add_text(text,
                           "  - that the repositories had no stricter labels, for which the policies ask for more: the registry\n"
                           "    decided with these labels;\n",
                           err);
}

static struct result write_unproven(const struct run_bundle *bundle, const struct run_repeated *repeated, struct buffer *text,
                                    struct error *err)
{
    const struct run_chain *chain = &bundle->chain;

    TRY(buffer_add_text(text, "\nNot proven:\n", err));
    if (chain->admission == NULL && chain->refusal == NULL)
        TRY(buffer_format(text, err, "  - that the outputs were admitted: the bundle ends with the %s;\n",
                          run_type_name(chain->result != NULL  ? RUN_RESULT
                                        : chain->lease != NULL ? RUN_LEASE
                                                               : RUN_ORDER)));
    if (chain->result != NULL && lacks_nodes(chain))
        TRY(add_line(text, err, "  - that the other nodes of the attempt did anything: the bundle has node %lld alone;",
                     (long long)run_integer(chain->lease, "node")));
    TRY(write_unproven_terms(bundle, repeated, text, err));
    if (repeated->decisions == 0)
        TRY(buffer_add_text(text, "  - that the policies allowed it: the bundle has no decisions;\n", err));
    if (repeated->others > 0)
        TRY(add_line(text, err,
                     "  - that the log has the other %" PRIu64 " decisions of the bundle, and that they are about this run;",
                     repeated->others));
    if (is_claimed(chain))
        TRY(buffer_add_text(
            text,
            "  - who asked for it: no key of the requester has signed. sijil-keyd and the login of the gateway, which had the\n"
            "    token, are trusted for that;\n",
            err));
    if (chain->result != NULL)
        TRY(buffer_add_text(text, "  - that the runner did what it says: only those that are named above can know;\n", err));
    TRY(buffer_add_text(
        text,
        "  - that no key was withdrawn before it was used, and that its organisation is still the same: the registry\n"
        "    chose the documents of this bundle;\n"
        "  - that two principals are two persons: the approvers of their keys said so",
        err));
    if (bundle->event.policy != NULL) return buffer_add_text(text, ".\n", err);
    return buffer_add_text(
        text, ";\n  - that everybody is shown the same log: no policy of witnesses was given (--witness-policy).\n", err);
}

const char *run_bundle_outcome(const struct run_bundle *bundle)
{
    const struct run_chain *chain = &bundle->chain;

    if (chain->admission != NULL) return "admitted";
    if (chain->refusal != NULL) return "refused";
    if (chain->result != NULL) return run_text(chain->result, DETAILS "sijil_outcome.status");
    return chain->lease != NULL ? "leased" : "ordered";
}

struct result run_bundle_text(const struct run_bundle *bundle, const struct run_repeated *repeated, struct buffer *text,
                              struct error *err)
{
    const char *run = run_text(bundle->chain.order, "run"), *project = run_text(bundle->chain.order, "project");
    const char *origin = bundle->event.checkpoint.origin;

    if (bundle->chain.admission != NULL)
        TRY(add_line(text, err, "Verified, and admitted: the run %s of %s in the registry of the log %s.", run, project, origin));
    else
        TRY(add_line(text, err, "Verified, but NOT ADMITTED (%s): the run %s of %s in the registry of the log %s.",
                     run_bundle_outcome(bundle), run, project, origin));
    TRY(buffer_add_text(text, "\nProven, given the three keys:\n", err));
    TRY(write_proven(bundle, repeated, text, err));
    TRY(write_trusted(bundle, text, err));
    return write_unproven(bundle, repeated, text, err);
}

static json_t *digest_of_envelope(const struct run_envelope *envelope)
{
    return envelope == NULL ? json_null() : json_string(envelope->digest);
}

/* What the approvers have signed of the runner, and who else could have used its key. */
static json_t *runner_json(const struct run_bundle *bundle)
{
    const struct runner_key *runner = &bundle->runner;

    if (!bundle->has_runner) return json_null();
    return json_pack("{s:s, s:s, s:s, s:O, s:I, s:I, s:s, s:[s, s]}", "id", run_text(bundle->chain.lease, "runner.id"), "pool",
                     runner->pool, "region", runner->region, "jurisdictions", runner->jurisdictions, "assurance",
                     (json_int_t)runner->assurance, "devices", (json_int_t)runner->devices, "isolation", runner->isolation,
                     "trusted", "root of the machine",
                     is_declared(bundle) ? "users of the machine and of its cluster" : "approvers");
}

struct result run_bundle_json(const struct run_bundle *bundle, const struct run_repeated *repeated, struct buffer *text,
                              struct error *err)
{
    const struct run_chain *chain = &bundle->chain;
    OWNED_JSON json = json_pack("{s:b, s:s, s:s, s:s, s:I, s:I, s:I, s:b, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "verified", 1,
                                "run", run_text(chain->order, "run"), "project", run_text(chain->order, "project"), "origin",
                                bundle->event.checkpoint.origin, "event", (json_int_t)bundle->event.index, "approvals",
                                (json_int_t)chain->approval_count, "decisions", (json_int_t)repeated->decisions, "terms",
                                (int)repeated->has_terms, "nodes", (json_int_t)(chain->lease == NULL ? 0 : chain->peer_count + 1),
                                "request", digest_of_envelope(chain->request), "order", digest_of_envelope(chain->order), "lease",
                                digest_of_envelope(chain->lease), "result", digest_of_envelope(chain->result), "admission",
                                digest_of_envelope(chain->admission), "refusal", digest_of_envelope(chain->refusal), "runner",
                                runner_json(bundle));

    json_t *claims = is_claimed(chain) ? json_incref(json_object_get(chain->request->json, "claims")) : json_null();

    if (json == NULL || json_object_set_new(json, "claims", claims) != 0 ||
        json_object_set_new(json, "certificate", digest_of_envelope(chain->certificate)) != 0 ||
        json_object_set_new(json, "outcome", json_string(run_bundle_outcome(bundle))) != 0 ||
        json_object_set_new(json, "manifests", json_integer((json_int_t)repeated->manifests)) != 0)
        return failure(err, ERROR_NO_MEMORY, "no memory for a report");
    TRY(json_write_canonical(text, json, err));
    return buffer_add_u8(text, '\n', err);
}
