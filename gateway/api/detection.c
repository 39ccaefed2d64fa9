/* /api/v1/audit/detections: rules that watch the log, those in force, and what a rule would have found; docs/detection.md. */
#include <stdio.h>
#include <string.h>

#include "audit/query.h"
#include "base/clock.h"
#include "base/json.h"
#include "detection/rules.h"
#include "gateway/api/log_document_priv.h"

#define TRIAL_EVENTS_MAX 20000 /* of one request */
#define TRIAL_MS         2000
#define TRIAL_ALARMS_MAX 100
#define PAGE             500

PART(detection_body, "what makes an alarm; of a withdrawal nothing",
     HAS_WORD("detector", OPTIONAL, DETECTORS(SCHEMA_WORD), "what it looks for"),
     HAS_NUMBER("threshold", OPTIONAL, 1, DETECTION_THRESHOLD_MAX, "so many make an alarm"),
     HAS_NUMBER("window", OPTIONAL, 1, DETECTION_WINDOW_MAX_S, "within so many seconds"),
     HAS_NUMBER("severity", OPTIONAL, 1, DETECTION_SEVERITY_MAX, "of the alarm: 1 informational to 5 critical"),
     HAS_FLAG("off", OPTIONAL, "true: the rule makes no alarm"))
PART(detection_document, "the signed payload (docs/formats/documents.md)",
     HAS_WORD("schema", REQUIRED, "sijil.document/v1", "the form of the document"),
     HAS_WORD("kind", REQUIRED, "detection-rule", "the kind of the document"),
     HAS_TEXT("scope", REQUIRED, FORM_FREE, 0, 0, "empty: the registry"),
     HAS_TEXT("name", REQUIRED, FORM_FREE, 1, DETECTION_NAME_MAX, "the name of the rule"),
     HAS_NUMBER("version", REQUIRED, 1, INT64_MAX, "the highest one counts"),
     HAS_SIGNED_TIME("effective_from", REQUIRED, "not in force before"),
     HAS_SIGNED_TIME("expires", REQUIRED, "not in force from then on"),
     HAS_TEXT("withdrawn", OPTIONAL, FORM_FREE, 1, 256, "why this version withdraws the rule"),
     HAS_OBJECT("body", REQUIRED, schema_detection_body, "the rule"))
PART(detection_signature, "one signature", HAS_TEXT("sig", REQUIRED, FORM_FREE, 1, 0, "ECDSA P-256 in DER, in base64"),
     HAS_TEXT("keyid", OPTIONAL, FORM_FREE, 0, 127, "the RFC 7638 thumbprint of the key that made it; not signed"))
SCHEMA(detection_envelope, "one signature of a detection rule, with the rule (DSSE)",
       HAS_WORD("payloadType", REQUIRED, "application/vnd.sijil.detection-rule.v1+json", "what the payload is"),
       HAS_TEXT("payload", REQUIRED, FORM_FREE, 1, 0, "the document in base64"),
       HAS_SOME("signatures", REQUIRED, 1, 8, schema_detection_signature, "of its signer"))
PART(detection_signer, "the principal that brought a signature",
     HAS_TEXT("principal", REQUIRED, FORM_FREE, 1, 79, "as documents name it, or root"),
     HAS_TEXT("person", OPTIONAL, FORM_FREE, 1, 79, "the person behind it; absent: nobody"))
SCHEMA(detection, "a detection rule", HAS_TEXT("name", REQUIRED, FORM_FREE, 1, DETECTION_NAME_MAX, "its name"),
       HAS_TEXT("state", REQUIRED, FORM_FREE, 1, 10, "draft, in force, to come, expired or withdrawn"),
       HAS_COUNT("event", OPTIONAL, "the number of its event; a draft has none"),
       HAS_OBJECT("envelope", OPTIONAL, schema_detection_envelope, "of a draft: the first signature"),
       HAS_LIST("envelopes", OPTIONAL, DOCUMENT_SIGNATURES_MAX, schema_detection_envelope,
                "of a draft, and of one rule: all signatures"),
       HAS_LIST("signed_by", OPTIONAL, DOCUMENT_SIGNATURES_MAX, schema_detection_signer, "of a draft: who signed"),
       HAS_COUNT("missing", OPTIONAL, "of a draft: so many more signatures it needs, if the root does not sign"),
       HAS_OBJECT("document", REQUIRED, schema_detection_document, "what is signed"))
SCHEMA(detections, "a page of detection rules", HAS_LIST("detections", REQUIRED, 1000, schema_detection, "by name"),
       HAS_LIST("drafts", REQUIRED, 64, schema_detection, "rules that wait for an approver, on the first page"), HAS_NEXT)
SCHEMA(detection_approval, "all signatures of a draft",
       HAS_SOME("envelopes", REQUIRED, 1, DOCUMENT_SIGNATURES_MAX, schema_detection_envelope,
                "the draft's, then the approver's, of the same payload"))
PART(alarm_rule, "a rule as it counts now", HAS_TEXT("name", REQUIRED, FORM_FREE, 1, DETECTION_NAME_MAX, "its name"),
     HAS_WORD("detector", REQUIRED, DETECTORS(SCHEMA_WORD), "what it looks for"),
     HAS_COUNT("threshold", REQUIRED, "so many make an alarm"),
     HAS_COUNT("window", REQUIRED, "within so many seconds; 0: it has none"),
     HAS_NUMBER("severity", REQUIRED, 1, DETECTION_SEVERITY_MAX, "of the alarm"),
     HAS_FLAG("off", REQUIRED, "true: it makes no alarm"),
     HAS_COUNT("event", OPTIONAL, "of its document; absent: a default rule"))
SCHEMA(alarm_rules, "all rules", HAS_LIST("rules", REQUIRED, DETECTION_RULES_MAX, schema_alarm_rule, "default rules first"))
PART(alarm_found, "an alarm that the rule would have made", HAS_TEXT("actor", OPTIONAL, FORM_FREE, 1, 64, "the pseudonym"),
     HAS_COUNT("count", REQUIRED, "events that make it"), HAS_TIME("time", REQUIRED, "of the last one"),
     HAS_ANY("events", REQUIRED, "a list of the numbers of the last ones"))
SCHEMA(alarm_trial, "what a rule would have found",
       HAS_LIST("alarms", REQUIRED, TRIAL_ALARMS_MAX, schema_alarm_found, "oldest first"),
       HAS_COUNT("searched_to", REQUIRED, "all events before this number were looked at"),
       HAS_FLAG("is_whole", REQUIRED, "false: there are more events; ask again from a later time"))

/* ---- documents ---- */

struct result target_detection_draft(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup;
    return log_document_target_draft(request, &log_detections, err);
}

struct result target_detection_approve(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup;
    return log_document_target_approve(request, &log_detections, err);
}

struct result target_detection_revoke(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup;
    return log_document_target_revoke(request, &log_detections, err);
}

struct result target_detection_reject(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup, (void)err;
    return log_document_target_named(request, ACTION_DETECTION_REJECT);
}

struct result target_detection_list(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup, (void)err;
    return log_document_target_list(request, ACTION_DETECTION_READ);
}

struct result target_detection_show(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup, (void)err;
    return log_document_target_named(request, ACTION_DETECTION_READ);
}

struct result target_detection_trial(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup, (void)err;
    return log_document_target_named(request, ACTION_AUDIT_READ);
}

/* ---- the rules in force ---- */

static json_t *describe(const struct detection_rule *rule, uint64_t since)
{
    return json_pack("{s:s, s:s, s:I, s:I, s:I, s:b, s:o*}", "name", rule->name, "detector", detector_name(rule->detector),
                     "threshold", (json_int_t)rule->threshold, "window", (json_int_t)rule->window_s, "severity",
                     (json_int_t)rule->severity, "off", rule->is_off ? 1 : 0, "event",
                     since == 0 ? NULL : json_integer((json_int_t)since));
}

static struct result handle_rules(struct request *request, struct pg *pg, struct error *err)
{
    OWNED_JSON value = json_pack("{s:[]}", "rules");
    struct detection_rules all;
    uint64_t since[DETECTION_RULES_MAX];

    TRY(document_refresh(request, pg, err));
    TRY(detection_rules_of(request->gateway->documents, clock_wall_ms(), &all, since, err));
    for (size_t i = 0; i < all.count; i++)
        if (json_array_append_new(json_object_get(value, "rules"), describe(&all.each[i], since[i])) != 0)
            return failure(err, ERROR_NO_MEMORY, "no memory for rules");
    response_json(request, 200, value);
    return SUCCESS;
}

/* ---- trials ---- */

struct trial {
    struct request *request;
    struct pg *pg;
    struct engine *engine;
    json_t *alarms;
    uint64_t at;
    bool is_whole;
    int64_t until_ms; /* monotonic */
};

static struct result note_alarm(void *context, const struct alarm *alarm, struct error *err)
{
    struct trial *trial = context;
    OWNED_JSON events = json_array();
    char time[CLOCK_TEXT_SIZE];

    if (json_array_size(trial->alarms) == TRIAL_ALARMS_MAX) return SUCCESS;
    for (size_t i = 0; i < alarm->event_count; i++)
        (void)json_array_append_new(events, json_integer((json_int_t)alarm->events[i]));
    clock_format(alarm->time_ms, time);
    json_t *value = json_pack("{s:s*, s:I, s:s, s:O}", "actor", alarm->actor[0] == '\0' ? NULL : alarm->actor, "count",
                              (json_int_t)alarm->count, "time", time, "events", events);
    if (json_array_append_new(trial->alarms, value) == 0) return SUCCESS;
    return failure(err, ERROR_NO_MEMORY, "no memory for alarms");
}

static struct result page_at(struct trial *trial, uint64_t from, size_t limit, struct audit_page **page_out, struct error *err)
{
    const struct audit_filter filter = {.ascending = true, .from = from, .until = INT64_MAX, .limit = limit};

    return audit_list(trial->request->permit, trial->pg, &filter, page_out, err);
}

/* The first event with at least this time: times never fall. */
static struct result find_time(struct trial *trial, int64_t from_ms, uint64_t size, struct error *err)
{
    uint64_t low = 0, high = size;

    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        OWNED(audit_page) *page = NULL;
        struct leaf leaf = {.time_ms = 0};
        TRY(page_at(trial, middle, 1, &page, err));
        if (audit_page_count(page) == 1 && audit_page_is_readable(page, 0)) TRY(leaf_read(audit_page_leaf(page, 0), &leaf, err));
        if (audit_page_count(page) == 1 && leaf.time_ms < from_ms) low = middle + 1;
        else high = middle;
    }
    trial->at = low;
    return SUCCESS;
}

static struct result feed_page(struct trial *trial, struct error *err)
{
    OWNED(audit_page) *page = NULL;
    struct leaf leaf;

    TRY(page_at(trial, trial->at, PAGE, &page, err));
    for (size_t i = 0; i < audit_page_count(page); i++) {
        trial->at = audit_page_sequence(page, i) + 1;
        if (!audit_page_is_readable(page, i)) continue;
        TRY(leaf_read(audit_page_leaf(page, i), &leaf, err));
        TRY(engine_feed(trial->engine, &leaf, NULL, note_alarm, trial, err));
    }
    trial->is_whole = audit_page_count(page) < PAGE;
    return SUCCESS;
}

static struct result run_trial(struct trial *trial, struct error *err)
{
    for (unsigned pages = 0; pages < TRIAL_EVENTS_MAX / PAGE && !trial->is_whole && clock_monotonic_ms() < trial->until_ms;
         pages++)
        TRY(feed_page(trial, err));
    return SUCCESS;
}

static struct result find_rule(struct request *request, struct pg *pg, struct detection_rules *one_out, struct error *err)
{
    struct detection_rules all;

    TRY(document_refresh(request, pg, err));
    TRY(detection_rules_of(request->gateway->documents, clock_wall_ms(), &all, NULL, err));
    for (size_t i = 0; i < all.count; i++) {
        const enum detector detector = all.each[i].detector;
        if (strcmp(all.each[i].name, request->reference) != 0) continue;
        if (detector == DETECTOR_COUNTRY || detector == DETECTOR_NETWORK)
            return failure(err, ERROR_INVALID, "a rule about places can't be tried: it would open the address of each event");
        if (detector == DETECTOR_COPY)
            return failure(err, ERROR_INVALID,
                           "a rule about copies can't be tried: an auditor does not see the labels of all projects");
        if (detector == DETECTOR_BYTES)
            return failure(err, ERROR_INVALID,
                           "a rule about bytes can't be tried: an auditor does not see the sizes of artifacts");
        *one_out = (struct detection_rules){.count = 1, .each = {all.each[i]}};
        return SUCCESS;
    }
    return failure(err, ERROR_NOT_FOUND, "there is no rule of this name");
}

static struct result answer_trial(struct trial *trial, struct error *err)
{
    OWNED_JSON value = json_pack("{s:O, s:I, s:b}", "alarms", trial->alarms, "searched_to", (json_int_t)trial->at, "is_whole",
                                 trial->is_whole ? 1 : 0);

    if (value == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for alarms");
    response_json(trial->request, 200, value);
    return SUCCESS;
}

static struct result handle_trial(struct request *request, struct pg *pg, struct error *err)
{
    static const uint8_t no_key[16]; /* its names are those of the log: nobody gains by a collision in a trial */
    const char *since = request_argument(request, "since");
    OWNED_JSON alarms = json_array();
    OWNED(engine) *engine = NULL;
    struct trial trial = {.request = request, .pg = pg, .alarms = alarms, .until_ms = clock_monotonic_ms() + TRIAL_MS};
    struct detection_rules one;
    int64_t from_ms = 0;

    if (alarms == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for alarms");
    if (since != NULL && !clock_parse(bytes_of_text(since), &from_ms))
        return failure(err, ERROR_INVALID, "since: a time such as 2026-11-20T00:00:00Z");
    TRY(find_rule(request, pg, &one, err));
    TRY(engine_new(&one, no_key, &engine, err));
    trial.engine = engine;
    TRY(find_time(&trial, from_ms, permit_sequence(request->permit), err));
    TRY(run_trial(&trial, err));
    return answer_trial(&trial, err);
}

const struct handler handler_detection_rules = {.handle = handle_rules};
const struct handler handler_detection_trial = {.handle = handle_trial};
