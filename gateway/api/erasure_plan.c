/* POST /api/v1/erasures/plan: what the log has about a person, what an erasure removes, and what forbids it; docs/erasure.md. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "crypto/secret.h"
#include "gateway/api/audit_priv.h"
#include "gateway/api/erasure_priv.h"
#include "gateway/pipeline/document.h"
#include "policy/decider/kept_events.h"

SCHEMA(erasure_wanted, "a person in the log",
       HAS_TEXT("subject", REQUIRED, FORM_FREE, 1, 255,
                "its name at its issuer, the name of a robot, or the pseudonym in the log"),
       HAS_TEXT("issuer", OPTIONAL, FORM_URL, 1, 255, "the issuer, if several have a subject of this name"),
       HAS_TEXT("purpose", OPTIONAL, FORM_FREE, 1, 512, "why: recorded, sealed, with the event"))
PART(erasure_refusal, "a reason against the erasure",
     HAS_TEXT("rule", REQUIRED, FORM_FREE, 1, 32,
              "ERASURE-ROLE, ERASURE-UPLOAD, ERASURE-RETENTION, ERASURE-POLICY or ERASURE-HOLD"),
     HAS_TEXT("why", REQUIRED, FORM_FREE, 1, 0, "what forbids it, and the way out"))
PART(erasure_part, "something that the registry has about the person", HAS_TEXT("what", REQUIRED, FORM_FREE, 1, 0, "what it is"),
     HAS_COUNT("count", OPTIONAL, "how many; absent: nobody can count them"),
     HAS_TEXT("why", OPTIONAL, FORM_FREE, 1, 0, "why it stays, and what it still tells"))
SCHEMA(erasure_plan, "what the log has about a person, and what an erasure does with it",
       HAS_TEXT("pseudonym", REQUIRED, FORM_FREE, 64, 64, "of the person in the log: the name of the document of the erasure"),
       HAS_COUNT("events", REQUIRED, "events of the person"),
       HAS_TIME("newest", REQUIRED, "when the newest event was; without events: when a role was last given or ended"),
       HAS_TIME("erasable_from", REQUIRED, "the end of the retention, if the person does nothing more"),
       HAS_LIST("refused", REQUIRED, 5, schema_erasure_refusal, "what forbids the erasure now; empty: nothing"),
       HAS_LIST("goes", REQUIRED, 8, schema_erasure_part, "what an erasure removes"),
       HAS_LIST("stays", REQUIRED, 8, schema_erasure_part, "what it leaves"))

void erasure_case_done(struct erasure_case *erasure)
{
    json_decref(erasure->refused);
    erasure_person_wipe(&erasure->person);
}

/* ---- the target ---- */

static struct result write_asked(const json_t *body, struct buffer *text, struct error *err)
{
    TRY(audit_write_condition("subject", json_text_of(body, "subject"), text, err));
    return audit_write_condition("issuer", json_text_of(body, "issuer"), text, err);
}

/* The name goes into the sealed part of the event, as the conditions of a search do. */
struct result target_erasure_plan(struct request *request, struct lookup *lookup, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(2048);
    const json_t *body = NULL;

    (void)lookup;
    if (api_asks_for_credential(request, ACTION_ERASURE_PLAN)) return SUCCESS;
    TRY(request_document(request, &body, err));
    TRY(write_asked(body, &text, err));
    request->purpose = json_text_of(body, "purpose");
    request->search = arena_copy_text(request->arena, buffer_bytes(&text));
    if (request->search == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a plan");
    (void)api_pair(request, ACTION_ERASURE_PLAN, RESOURCE_SYSTEM, "");
    return SUCCESS;
}

/* ---- what forbids an erasure ---- */

struct found_holds {
    const char *pseudonym;
    json_t *names;
    int64_t now_ms;
};

static struct result note_hold(void *context, const struct pinned_document *pinned, struct error *err)
{
    const struct found_holds *found = context;
    struct legal_hold hold;

    if (!document_is_in_force(pinned->document, found->now_ms)) return SUCCESS;
    TRY(legal_hold_read(pinned->document, &hold, err));
    if (!legal_hold_covers(&hold, found->pseudonym)) return SUCCESS;
    if (json_array_append_new(found->names, json_string(pinned->document->name)) == 0) return SUCCESS;
    return failure(err, ERROR_NO_MEMORY, "no memory for holds");
}

struct result holds_of(const struct request *request, const char *pseudonym, json_t *names, struct error *err)
{
    struct found_holds found = {pseudonym, names, clock_wall_ms()};

    return document_view_visit_all(request->gateway->documents, DOCUMENT_LEGAL_HOLD, note_hold, &found, err);
}

static struct result refuse(struct erasure_case *erasure, const char *rule, const char *why, struct error *err)
{
    if (json_array_append_new(erasure->refused, json_pack("{s:s, s:s}", "rule", rule, "why", why)) == 0) return SUCCESS;
    return failure(err, ERROR_NO_MEMORY, "no memory for a plan");
}

static struct result check_rights(struct erasure_case *erasure, struct error *err)
{
    const bool is_robot = erasure->person.issuer[0] == '\0';

    if (erasure->holdings.roles_live > 0)
        TRY(refuse(erasure, "ERASURE-ROLE",
                   is_robot ? "the robot is not revoked: revoke it first" : "the person has a role: revoke its roles first",
                   err));
    if (erasure->holdings.uploads == 0) return SUCCESS;
    return refuse(erasure, "ERASURE-UPLOAD", "the person has open uploads: end them, or wait until they expire", err);
}

static struct result check_time(struct erasure_case *erasure, struct error *err)
{
    char text[CLOCK_TEXT_SIZE], why[160];

    if (clock_wall_ms() >= erasure->erasable_ms) return SUCCESS;
    clock_format(erasure->erasable_ms, text);
    (void)snprintf(why, sizeof why, "the newest %s is kept for erasure_retention: wait until %s",
                   erasure->person.events > 0 ? "event" : "role", text);
    return refuse(erasure, "ERASURE-RETENTION", why, err);
}

/* Policies keep events of what they are about, whoever configures the gateway. */
static struct result check_policies(const struct request *request, struct pg *pg, struct erasure_case *erasure, struct error *err)
{
    const struct kept_query query = {request->permit, erasure->action, pg, erasure->person.pseudonym, clock_wall_ms()};
    char text[CLOCK_TEXT_SIZE], why[640];
    struct kept_events kept;

    TRY(decider_keeps_events(request->gateway->decider, &query, &kept, err));
    erasure->is_kept = kept.are_kept;
    if (!kept.are_kept) return SUCCESS;
    if (kept.until_ms > erasure->erasable_ms) erasure->erasable_ms = kept.until_ms;
    clock_format(kept.until_ms, text);
    (void)snprintf(why, sizeof why, "%s of %s keeps the person's events%s%s: wait until %s", kept.rule, kept.policy,
                   kept.name[0] == '\0' ? "" : " about ", kept.name, text);
    return refuse(erasure, "ERASURE-POLICY", why, err);
}

static struct result check_holds(const struct request *request, struct erasure_case *erasure, struct error *err)
{
    OWNED_JSON names = json_array();
    char why[320];

    if (names == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for holds");
    TRY(holds_of(request, erasure->person.pseudonym, names, err));
    if (json_array_size(names) == 0) return SUCCESS;
    (void)snprintf(why, sizeof why, "%zu legal hold(s), such as \"%.128s\": an approver releases each of them first",
                   json_array_size(names), json_string_value(json_array_get(names, 0)));
    return refuse(erasure, "ERASURE-HOLD", why, err);
}

struct result erasure_case_read(struct request *request, struct pg *pg, enum action action, const char *pseudonym,
                                struct erasure_case *case_out, struct error *err)
{
    const struct gateway *gateway = request->gateway;
    const struct search_source source = {pg, gateway->keyd, gateway->origin};
    OWNED_ERASURE erasure = {.action = action, .refused = json_array()};

    if (erasure.refused == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a plan");
    TRY(document_refresh(request, pg, err));
    TRY(erasure_person_find(request->permit, action, &source, pseudonym, &erasure.person, err));
    TRY(subject_holdings_find(request->permit, action, pg, &erasure.person, &erasure.holdings, err));
    erasure.erasable_ms = erasure.person.newest_ms + gateway->settings->erasure_retention * 1000;
    TRY(check_rights(&erasure, err));
    TRY(check_time(&erasure, err));
    TRY(check_policies(request, pg, &erasure, err));
    TRY(check_holds(request, &erasure, err));
    *case_out = erasure;
    erasure.refused = NULL;
    return SUCCESS;
}

struct result erasure_case_check(const struct erasure_case *erasure, struct error *err)
{
    const json_t *first = json_array_get(erasure->refused, 0);

    if (first == NULL) return SUCCESS;
    return failure(err, ERROR_CONFLICT, "%s: %s", json_text_of(first, "rule"), json_text_of(first, "why"));
}

/* The subject has no role any more, but its name has the issuer. Of who made a robot long ago the issuer may not be known: then only the same subject is it. */
static bool may_be(const struct request *request, const struct person *owner, const struct persons *person)
{
    static const uint8_t not_known[PERSON_ISSUER_SIZE];
    const struct persons stored = {1, false, false, {*owner}};
    const struct persons now = decider_persons_now(request->gateway->decider, &stored, &request->pairs[0].resource.organisation);

    if (persons_meet(&stored, person)) return true;
    return memcmp(owner->issuer, not_known, sizeof not_known) != 0 && !persons_are_none_of(person, &now);
}

struct result erasure_check_person(const struct request *request, struct pg *pg, const struct erasure_case *erasure,
                                   const struct persons *person, struct error *err)
{
    struct subject_owners owners;

    if (!persons_are_known(person))
        return failure(err, ERROR_DENIED,
                       "ERASURE-PERSON: nobody knows which person holds this key, so it can't ask for an erasure");
    TRY(subject_owners_find(request->permit, erasure->action, pg, &erasure->person, &owners, err));
    for (size_t i = 0; i < owners.count; i++)
        if (may_be(request, &owners.persons[i], person))
            return failure(
                err, ERROR_DENIED,
                "ERASURE-SELF: nobody erases itself or its own robots from the log, and subjects of different issuers count as one "
                "person: two other approvers sign");
    return SUCCESS;
}

/* ---- the answer ---- */

static struct result add_part(json_t *list, const char *what, int64_t count, const char *why, struct error *err)
{
    OWNED_JSON part = json_pack("{s:s, s:s*}", "what", what, "why", why);

    if (part != NULL && (count < 0 || json_object_set_new(part, "count", json_integer(count)) == 0) &&
        json_array_append(list, part) == 0)
        return SUCCESS;
    return failure(err, ERROR_NO_MEMORY, "no memory for a plan");
}

static struct result add_going(const struct erasure_case *erasure, int64_t blind, json_t *list, struct error *err)
{
    TRY(add_part(list, "the key of the person, which opens the sealed parts and makes the pseudonym", 1, NULL, err));
    TRY(add_part(list, "sealed parts of events: name, address, program, claims, purposes and searches",
                 (int64_t)erasure->person.events, NULL, err));
    TRY(add_part(list, "rows of the search index by address, network and country", blind, NULL, err));
    if (erasure->person.issuer[0] == '\0') return SUCCESS;
    return add_part(list, "the name in roles that have ended", erasure->holdings.roles_ended, NULL, err);
}

static struct result add_staying(const struct erasure_case *erasure, json_t *list, struct error *err)
{
    const struct subject_holdings *holdings = &erasure->holdings;

    TRY(add_part(list, "events under the pseudonym", (int64_t)erasure->person.events,
                 "the proofs of the log rest on them; they name repositories and digests, and no person", err));
    TRY(add_part(list, "signed documents that the person recorded", holdings->documents,
                 "rights and training runs rest on them; they have a digest of issuer and subject", err));
    TRY(add_part(list, "robots that count as the person", holdings->robots,
                 "each has a pseudonym of its own: erase it, too; its row has a digest of issuer and subject", err));
    TRY(add_part(list, "training runs that the person asked for or approved", holdings->runs,
                 "their envelopes are signed, and prove what was made; they have a digest of issuer and subject", err));
    if (holdings->runs_named > 0)
        TRY(add_part(
            list, "of these, requests by a token from before names were left out", holdings->runs_named,
            "each has the name in clear, for all that may read the run or have its bundle; nobody can change what is signed",
            err));
    TRY(add_part(list, "roles that the person gave to others", holdings->given, "they have a digest of issuer and subject", err));
    if (erasure->person.issuer[0] == '\0')
        TRY(add_part(list, "rows of the robot", holdings->roles_ended, "the name of a program is no personal data", err));
    TRY(add_part(list, "what others wrote: searches of auditors, failed sign-ins", -1,
                 "sealed under the keys of those others, or of that day", err));
    return add_part(list, "copies of the database from before, and exports that were opened", -1,
                    "until the epoch of subjects' keys is destroyed; an export that was opened is out of reach", err);
}

static struct result answer(struct request *request, const struct erasure_case *erasure, int64_t blind, struct error *err)
{
    OWNED_JSON plan = json_pack("{s:s, s:I, s:O, s:[], s:[]}", "pseudonym", erasure->person.pseudonym, "events",
                                (json_int_t)erasure->person.events, "refused", erasure->refused, "goes", "stays");

    if (plan == NULL || !api_set_time(plan, "newest", erasure->person.newest_ms) ||
        !api_set_time(plan, "erasable_from", erasure->erasable_ms))
        return failure(err, ERROR_NO_MEMORY, "no memory for a plan");
    TRY(add_going(erasure, blind, json_object_get(plan, "goes"), err));
    TRY(add_staying(erasure, json_object_get(plan, "stays"), err));
    response_json(request, 200, plan);
    return SUCCESS;
}

static struct result handle(struct request *request, struct pg *pg, struct error *err)
{
    const struct search_source source = {pg, request->gateway->keyd, request->gateway->origin};
    struct erasure_name name = {.action = ACTION_ERASURE_PLAN};
    OWNED_ERASURE erasure = {.refused = NULL};
    const json_t *body = NULL;
    char pseudonym[ERASURE_PSEUDONYM_SIZE];
    int64_t blind = 0;

    TRY(request_document(request, &body, err));
    TRY(request_record(request, NULL, err));
    name.subject = json_text_of(body, "subject");
    name.issuer = json_text_of(body, "issuer");
    TRY(erasure_pseudonym(request->permit, &source, &name, pseudonym, err));
    TRY(erasure_case_read(request, pg, ACTION_ERASURE_PLAN, pseudonym, &erasure, err));
    TRY(erasure_count_blind(request->permit, ACTION_ERASURE_PLAN, pg, &erasure.person, &blind, err));
    return answer(request, &erasure, blind, err);
}

const struct handler handler_erasure_plan = {.handle = handle};
