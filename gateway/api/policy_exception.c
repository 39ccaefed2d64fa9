/* Exceptions of the policies: whose signatures they need, and the list of them; docs/policies.md, "Exceptions". */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "documents/format/set_exceptions.h"
#include "gateway/api/document_priv.h"
#include "gateway/api/policy_priv.h"
#include "policy/decider/decider.h"
#include "policy/decider/set_draft.h"
#include "policy/set_change.h"
#include "policy/set_exceptions.h"

PART(policy_exception, "an exception of the policies in force", HAS_TEXT("id", REQUIRED, FORM_FREE, 2, 64, "its name"),
     HAS_WORD("state", REQUIRED, "in-force not-begun ended revoked lifts-nothing used-up",
              "lifts-nothing: its version of the policy is not in force any more, or it does not meet its type"),
     HAS_NUMBER("uses", OPTIONAL, 0, INT64_MAX, "how often it may be used; without it any number of times"),
     HAS_COUNT("used", REQUIRED, "how often it was used"), HAS_TIME("last_use", OPTIONAL, "when it was used last"),
     HAS_ANY("exception", REQUIRED, "the exception, as it was signed"))
SCHEMA(policy_exceptions, "the exceptions of the policies in force",
       HAS_COUNT("epoch", REQUIRED, "of the policy set that has them"),
       HAS_LIST("exceptions", REQUIRED, SET_EXCEPTIONS_MAX, schema_policy_exception, "ordered by project"))

/* ---- the list ---- */

static struct result add(void *context, const struct policy_exception_view *view, const struct policy_exception_use *use,
                         struct error *err)
{
    json_t *list = context;
    char last[CLOCK_TEXT_SIZE];
    const bool is_used_up = use->used >= view->uses && strcmp(view->state, "in-force") == 0;

    clock_format(use->last_ms, last);
    OWNED_JSON value =
        json_pack("{s:s, s:s, s:I, s:s*, s:O}", "id", view->id, "state", is_used_up ? "used-up" : view->state, "used",
                  (json_int_t)use->used, "last_use", use->last_ms == 0 ? NULL : last, "exception", view->json);
    if (value != NULL && view->uses < INT64_MAX && json_object_set_new(value, "uses", json_integer(view->uses)) != 0)
        return failure(err, ERROR_NO_MEMORY, "no memory for an exception");
    if (value != NULL && json_array_append(list, value) == 0) return SUCCESS;
    return failure(err, ERROR_NO_MEMORY, "no memory for exceptions");
}

static struct result handle_list(struct request *request, struct pg *pg, struct error *err)
{
    OWNED(policy_set) *set = decider_policy_set(request->gateway->decider);

    if (set == NULL) return failure(err, ERROR_NOT_FOUND, "no policy set is loaded yet");
    OWNED_JSON value = json_pack("{s:I, s:[]}", "epoch", (json_int_t)policy_set_epoch(set), "exceptions");
    if (value == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for exceptions");
    TRY(policy_exception_visit(request->permit, pg, set, add, json_object_get(value, "exceptions"), err));
    response_json(request, 200, value);
    return SUCCESS;
}

const struct handler handler_policy_exceptions = {.handle = handle_list};

/* ---- who may ask for one, and who may sign it ---- */

static const struct uuid the_registry = {{0}};

static bool has_key(const struct document_trust *trust, const char *principal)
{
    uint8_t wanted[SHA256_SIZE];

    sha256_of(bytes_of_text(principal), wanted);
    for (size_t i = 0; i < DOCUMENT_APPROVERS_MAX; i++)
        if (document_approver_counts(&trust->approvers[i], trust->now_ms) &&
            memcmp(trust->approvers[i].principal, wanted, sizeof wanted) == 0)
            return true;
    return !document_root_is_one(trust) && memcmp(trust->terms.holder, wanted, sizeof wanted) == 0;
}

/* Two accounts of one person are one, also where sijil-keyd sees two principals. */
static struct result check_approver(const struct request *request, const json_t *exception, const json_t *person,
                                    const struct document_trust *trust, struct error *err)
{
    const char *id = json_text_of(exception, "id"), *subject = json_text_of(person, "sub");
    char principal[SET_PERSON_SIZE];

    if (!set_person_principal(person, principal) || !has_key(trust, principal))
        return failure(err, ERROR_INVALID, "the exception %.64s names an approver without a key that approves: %.100s", id,
                       subject);
    const struct persons asking = decider_persons(request->gateway->decider, request->principal, &the_registry);
    const struct persons approving = decider_persons_of_key(request->gateway->decider, principal, &the_registry);
    if (persons_are_others(&asking, &approving)) return SUCCESS;
    return failure(err, ERROR_INVALID,
                   "the exception %.64s needs other persons than the one that asks for it: %.100s is the same, or nobody knows",
                   id, subject);
}

static struct result check_new(const struct request *request, const json_t *exception, const struct document_trust *trust,
                               struct error *err)
{
    const json_t *approvals = json_object_get(exception, "approvals");
    char asked_by[SET_PERSON_SIZE], caller[PRINCIPAL_KEY_SIZE];

    struct error why;

    if (!set_exception_check_evidence(exception, &why).ok) return failure(err, ERROR_INVALID, "%s", why.message);
    principal_key(request->principal, caller);
    if (!set_person_principal(json_object_get(exception, "requested_by"), asked_by) || strcmp(asked_by, caller) != 0)
        return failure(
            err, ERROR_INVALID,
            "the exception %.64s says that somebody else asks for it: whoever drafts a set asks for its new exceptions",
            json_text_of(exception, "id"));
    for (size_t i = 0; i < json_array_size(approvals); i++)
        TRY(check_approver(request, exception, json_array_get(approvals, i), trust, err));
    return SUCCESS;
}

struct result policy_check_exceptions(const struct request *request, const struct policy_set *set,
                                      const struct policy_set *before, const struct document_trust *trust, struct error *err)
{
    const json_t *exceptions = json_object_get(policy_set_json(set), "exceptions");
    struct document_trust kept = {.now_ms = trust->now_ms};

    policy_set_kept_exceptions(before, set, kept.kept);
    for (size_t i = 0; i < json_array_size(exceptions); i++)
        if (!set_exception_is_kept(&kept, i)) TRY(check_new(request, json_array_get(exceptions, i), trust, err));
    return SUCCESS;
}

struct result policy_check_not_asking(const struct request *request, const struct document *document,
                                      const struct policy_set *before, struct error *err)
{
    const struct persons signing = decider_persons(request->gateway->decider, request->principal, &the_registry);
    const json_t *exceptions = json_object_get(document->json, "exceptions");
    OWNED(policy_set) *set = NULL;
    struct document_trust kept = {.now_ms = 0};

    if (json_array_size(exceptions) == 0) return SUCCESS;
    TRY(policy_set_compile(document_payload(document), &set, err));
    policy_set_kept_exceptions(before, set, kept.kept);
    for (size_t i = 0; i < json_array_size(exceptions); i++) {
        const json_t *each = json_array_get(exceptions, i);
        char asked_by[SET_PERSON_SIZE];
        if (set_exception_is_kept(&kept, i) || !set_person_principal(json_object_get(each, "requested_by"), asked_by)) continue;
        const struct persons asking = decider_persons_of_key(request->gateway->decider, asked_by, &the_registry);
        if (!persons_are_others(&signing, &asking))
            return failure(err, ERROR_DENIED, "you ask for the exception %.64s, so other persons sign the set",
                           json_text_of(each, "id"));
    }
    return SUCCESS;
}

/* ---- whose signatures are still missing ---- */

static struct result add_missing(const struct document *document, const struct document_trust *trust, const json_t *exception,
                                 json_t *list, struct error *err)
{
    const json_t *approvals = json_object_get(exception, "approvals");

    for (size_t i = 0; i < json_array_size(approvals); i++) {
        const json_t *person = json_array_get(approvals, i);
        char principal[SET_PERSON_SIZE];
        bool has_signed = false;
        if (!set_person_principal(person, principal)) continue;
        TRY(set_person_has_signed(document, trust, principal, &has_signed, err));
        if (!has_signed && json_array_append_new(list, json_string(principal)) != 0)
            return failure(err, ERROR_NO_MEMORY, "no memory for the signers of a draft");
    }
    return SUCCESS;
}

struct result policy_missing_approvers(const struct request *request, struct bytes payload, const struct document *document,
                                       const struct document_trust *trust, json_t *list, struct error *err)
{
    OWNED(policy_set) *before = decider_policy_set(request->gateway->decider);
    const json_t *exceptions = json_object_get(document->json, "exceptions");
    OWNED(policy_set) *set = NULL;
    struct document_trust kept = {.now_ms = 0};

    if (json_array_size(exceptions) == 0) return SUCCESS;
    TRY(policy_set_compile(payload, &set, err));
    policy_set_kept_exceptions(before, set, kept.kept);
    for (size_t i = 0; i < json_array_size(exceptions); i++)
        if (!set_exception_is_kept(&kept, i)) TRY(add_missing(document, trust, json_array_get(exceptions, i), list, err));
    return SUCCESS;
}
