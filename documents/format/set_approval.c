#include "documents/format/set_approval.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "base/uuid.h"
#include "crypto/digest.h"
#include "documents/format/document_priv.h"
#include "documents/format/set_exceptions.h"

#define EARLY_MS         60000 /* difference between the clocks of a person's machine and keyd's */
#define DAY_MS           INT64_C(86400000)
#define OFFICERS_MAX     (DOCUMENT_SIGNATURES_MAX - 1) /* envelopes of an enrolment without the holder's own */
#define NO_SET           "sha256:0000000000000000000000000000000000000000000000000000000000000000"
#define HOLDER_TEXT_SIZE 68 /* "ext:" and 64 hex digits */

/* ---- the approval ---- */

struct members {
    const char *expires, *effective, *comment, *plan;
    const json_t *replaces;
};

static struct result read_base(const json_t *replaces, struct document_pin *base, struct error *err)
{
    struct digest digest;
    const char *text = NULL;
    json_int_t epoch = 0;

    TRY(document_unpack(replaces, "approval.replaces", err, "{s:s, s:I}", "digest", &text, "epoch", &epoch));
    TRY(digest_parse(bytes_of_text(text), &digest, err));
    if (digest.algorithm != DIGEST_SHA256 || epoch < 0 || (epoch == 0) != (strcmp(text, NO_SET) == 0))
        return failure(err, ERROR_INVALID, "approval.replaces: epoch and digest of a set; 0 and zeros for the first one");
    base->epoch = (uint64_t)epoch;
    memcpy(base->digest, digest.bytes, sizeof base->digest);
    return SUCCESS;
}

static struct result read_times(const struct members *members, struct set_approval *approval, struct error *err)
{
    if (!clock_parse(bytes_of_text(members->expires), &approval->expires_ms))
        return failure(err, ERROR_INVALID, "approval.expires: a time in RFC 3339");
    if (members->effective == NULL) return SUCCESS;
    if (!clock_parse(bytes_of_text(members->effective), &approval->effective_ms) ||
        approval->effective_ms >= approval->expires_ms || approval->effective_ms <= 0)
        return failure(err, ERROR_INVALID, "approval.effective_from: a time in RFC 3339, before \"expires\"");
    return SUCCESS;
}

static struct result read_texts(const struct members *members, struct set_approval *approval, struct error *err)
{
    struct digest digest;

    if (members->comment != NULL && (members->comment[0] == '\0' || strlen(members->comment) > SET_APPROVAL_COMMENT_MAX))
        return failure(err, ERROR_INVALID, "approval.comment: 1 to %d bytes", SET_APPROVAL_COMMENT_MAX);
    if (members->plan != NULL) TRY(digest_parse(bytes_of_text(members->plan), &digest, err));
    approval->comment = members->comment;
    approval->plan = members->plan;
    return SUCCESS;
}

struct result set_approval_read(const json_t *set, struct set_approval *approval_out, struct error *err)
{
    const json_t *member = json_object_get(set, "approval");
    struct set_approval approval = {.is_there = member != NULL};
    struct members members = {0};

    if (member != NULL) {
        TRY(document_unpack(member, "the approval of a policy set", err, "{s:s, s:o, s?:s, s?:s, s?:s}", "expires",
                            &members.expires, "replaces", &members.replaces, "effective_from", &members.effective, "comment",
                            &members.comment, "plan", &members.plan));
        TRY(read_base(members.replaces, &approval.base, err));
        TRY(read_times(&members, &approval, err));
        TRY(read_texts(&members, &approval, err));
    }
    *approval_out = approval;
    return SUCCESS;
}

json_t *set_approval_json(const struct set_approval *approval)
{
    char expires[CLOCK_TEXT_SIZE], effective[CLOCK_TEXT_SIZE], base[DIGEST_TEXT_SIZE];
    struct digest digest = {.algorithm = DIGEST_SHA256};

    memcpy(digest.bytes, approval->base.digest, sizeof approval->base.digest);
    digest_format(&digest, base);
    clock_format(approval->expires_ms, expires);
    clock_format(approval->effective_ms, effective);
    return json_pack("{s:s, s:{s:s, s:I}, s:s*, s:s*, s:s*}", "expires", expires, "replaces", "digest", base, "epoch",
                     (json_int_t)approval->base.epoch, "effective_from", approval->effective_ms == 0 ? NULL : effective,
                     "comment", approval->comment, "plan", approval->plan);
}

/* ---- the terms ---- */

static struct root_terms whole(const struct root_terms *terms)
{
    struct root_terms one = {.policies = 1, .root = 1, .officers = 1};

    return terms->root == 0 ? one : *terms;
}

bool set_terms_are_same(const struct root_terms *one, const struct root_terms *other)
{
    const struct root_terms left = whole(one), right = whole(other);

    return left.policies == right.policies && left.root == right.root && left.officers == right.officers &&
           memcmp(left.holder, right.holder, sizeof left.holder) == 0;
}

static bool is_holder(const char *text)
{
    uint8_t raw[SHA256_SIZE];

    struct uuid robot;

    if (strncmp(text, "robot:", 6) == 0) return uuid_parse(bytes_of_text(text + 6), &robot);
    return strlen(text) == HOLDER_TEXT_SIZE && strncmp(text, "ext:", 4) == 0 &&
           text_from_hex(bytes_of_text(text + 4), raw, sizeof raw);
}

/* With a threshold above one the root's key is one person's, so the set says whose. */
static struct result read_holder(const char *holder, struct root_terms *terms, struct error *err)
{
    if (holder == NULL && terms->root == 1) return SUCCESS;
    if (holder == NULL || !is_holder(holder))
        return failure(err, ERROR_INVALID,
                       "root.holder: the principal that has the root's key, as documents name it ('sijil whoami' shows them)");
    sha256_of(bytes_of_text(holder), terms->holder);
    return SUCCESS;
}

struct result set_terms_read(const json_t *set, const struct root_terms *before, struct root_terms *terms_out, struct error *err)
{
    const json_t *member = json_object_get(set, "root");
    json_int_t officers = 0, policies = 0, root = 0;
    const char *holder = NULL;

    if (member == NULL) {
        *terms_out = whole(before);
        return SUCCESS;
    }
    TRY(document_unpack(member, "the root of a policy set", err, "{s:I, s:I, s:I, s?:s}", "officers", &officers, "policies",
                        &policies, "root", &root, "holder", &holder));
    if (policies < 1 || officers < 1 || officers > OFFICERS_MAX || root > ROOT_PERSONS_MAX || policies > root || officers > root)
        return failure(err, ERROR_INVALID,
                       "root: \"policies\" and \"officers\" are 1 to \"root\", \"officers\" at most %d, \"root\" at most %d",
                       OFFICERS_MAX, ROOT_PERSONS_MAX);
    struct root_terms terms = {.policies = (uint8_t)policies, .root = (uint8_t)root, .officers = (uint8_t)officers};
    TRY(read_holder(holder, &terms, err));
    *terms_out = terms;
    return SUCCESS;
}

/* ---- who has signed ---- */

static struct result count(const struct document *document, const struct document_trust *trust, const struct root_terms *terms,
                           unsigned *persons_out, struct error *err)
{
    static const uint8_t no_key[ECDSA_PUBLIC_SIZE], nobody[DOCUMENT_DIGEST_SIZE];
    struct document_trust then = *trust;

    then.terms = *terms;
    return document_count_persons(document, &then, &(struct document_own){no_key, nobody}, persons_out, err);
}

/* As long as the root is one, its key does everything. An envelope has room for ROOT_PERSONS_MAX signatures. */
static unsigned needed_for(enum set_change change, const struct root_terms *terms)
{
    if (terms->root == 1 || change == SET_RESTRICTS) return 1;
    if (change == SET_LOOSENS && terms->policies < ROOT_PERSONS_MAX) return terms->policies + 1U;
    return terms->policies;
}

struct result set_count_signers(const struct document *document, const struct document_trust *trust,
                                struct set_signers *signers_out, struct error *err)
{
    const struct root_terms before = whole(&trust->terms);
    struct set_signers signers = {.needed = needed_for(trust->change, &before)};
    struct root_terms after;

    TRY(set_terms_read(document->json, &before, &after, err));
    TRY(document_is_signed_by(document, trust->root, &signers.has_root, err));
    TRY(count(document, trust, &before, &signers.persons, err));
    if (!set_terms_are_same(&before, &after)) {
        if (signers.needed < before.root) signers.needed = before.root;
        signers.demanded = after.root;
        TRY(count(document, trust, &after, &signers.others, err));
    }
    *signers_out = signers;
    return SUCCESS;
}

void set_signers_shown(const struct set_signers *signers, unsigned *persons_out, unsigned *needed_out)
{
    const bool changes = signers->demanded > 0;

    *persons_out = changes && signers->others < signers->persons ? signers->others : signers->persons;
    *needed_out = signers->demanded > signers->needed ? signers->demanded : signers->needed;
}

/* As long as the root is one, it is its key: no approver takes its place. */
bool set_is_signed_enough(const struct set_signers *signers, const struct document_trust *trust)
{
    if (whole(&trust->terms).root == 1 && !signers->has_root) return false;
    return signers->persons >= signers->needed && signers->others >= signers->demanded;
}

static struct result check_there(const struct document *document, const struct document_trust *trust, struct error *err)
{
    struct set_approval approval;

    TRY(set_approval_read(document->json, &approval, err));
    if (approval.is_there) return SUCCESS;
    if (whole(&trust->terms).policies > 1)
        return failure(err, ERROR_DENIED, "a policy set needs %u persons here: draft it, so that others can approve it",
                       trust->terms.policies);
    if (json_object_get(document->json, "root") == NULL) return SUCCESS;
    return failure(err, ERROR_DENIED, "a policy set with \"root\" says which set it replaces: draft it");
}

/* Without "approval" it does not say that others may sign it, and no reader takes it for theirs: in force, it would stop them all. */
static bool needs_root(const struct document *document, const struct document_trust *trust)
{
    return whole(&trust->terms).root == 1 || json_object_get(document->json, "approval") == NULL;
}

/* The content of the set is not checked here: its signers have, and policy/ reads it before it takes effect. */
struct result document_check_policy_set(const struct document *document, const struct document_trust *trust, struct error *err)
{
    static const uint8_t unset[ECDSA_PUBLIC_SIZE];
    struct set_signers signers;

    if (memcmp(trust->root, unset, sizeof unset) == 0)
        return failure(err, ERROR_DENIED, "no approver of policy sets is pinned yet");
    TRY(check_there(document, trust, err));
    TRY(set_count_signers(document, trust, &signers, err));
    if (needs_root(document, trust) && !signers.has_root)
        return failure(err, ERROR_DENIED, "the document carries no valid signature of the trusted key");
    if (set_is_signed_enough(&signers, trust)) return set_check_exceptions(document, trust, &signers, err);
    const bool is_before = signers.persons < signers.needed;
    return failure(err, ERROR_DENIED, "the policy set needs the signatures of %u persons%s, and has those of %u",
                   is_before ? signers.needed : signers.demanded,
                   is_before && trust->change == SET_LOOSENS ? ", because it loosens what holds now" : "",
                   is_before ? signers.persons : signers.others);
}

struct result set_check_base(const struct document *document, const struct document_pin *pinned, int64_t now_ms,
                             struct error *err)
{
    struct set_approval approval;

    TRY(set_approval_read(document->json, &approval, err));
    if (!approval.is_there) return SUCCESS;
    if (approval.base.epoch != pinned->epoch || memcmp(approval.base.digest, pinned->digest, sizeof pinned->digest) != 0)
        return failure(err, ERROR_DENIED,
                       "the policy set replaces that of epoch %llu, and that of epoch %llu is in force: draft it anew",
                       (unsigned long long)approval.base.epoch, (unsigned long long)pinned->epoch);
    if (approval.effective_ms > now_ms + EARLY_MS) return failure(err, ERROR_DENIED, "the policy set is not to be in force yet");
    if (approval.expires_ms <= now_ms)
        return failure(err, ERROR_DENIED, "the draft of the policy set has expired: draft it anew");
    if (approval.expires_ms - now_ms > SET_APPROVAL_DAYS_MAX * DAY_MS + EARLY_MS)
        return failure(err, ERROR_DENIED, "a draft of a policy set waits for at most %d days", SET_APPROVAL_DAYS_MAX);
    return SUCCESS;
}
