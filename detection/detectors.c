/* The detectors: what in the log is worth an alarm. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "detection/engine_priv.h"

#define MIB ((uint64_t)1 << 20)

static bool is_outcome(const struct leaf *leaf, const char *outcome)
{
    return strcmp(leaf->outcome, outcome) == 0;
}

static bool is_action(const struct leaf *leaf, const char *action)
{
    return strcmp(leaf->targets[0].action, action) == 0;
}

/* What follows "#"; "" if nothing does. */
static const char *detail_of(const struct leaf *leaf)
{
    const char *resource = leaf->targets[0].resource;
    const size_t length = strcspn(resource, "#");

    return resource[length] == '#' ? resource + length + 1 : "";
}

static void name_actor(const struct leaf *leaf, struct alarm *alarm)
{
    (void)snprintf(alarm->actor, sizeof alarm->actor, "%s", leaf->actor);
}

/* An alarm of this one event. */
static bool alone(const struct feeding *feeding, struct alarm *alarm)
{
    alarm->count = alarm->event_count = 1;
    alarm->events[0] = feeding->leaf->sequence;
    return true;
}

static void take_events(const struct tracked *tracked, struct alarm *alarm)
{
    alarm->event_count = tracked->event_count;
    memcpy(alarm->events, tracked->events, tracked->event_count * sizeof tracked->events[0]);
}

static bool counted_amount(struct feeding *feeding, const struct counting *counting, struct alarm *alarm)
{
    if (!count_event(feeding, counting, &alarm->count)) return false;
    take_events(counting->tracked, alarm);
    counting->tracked->event_count = 0;
    return true;
}

static bool counted(struct feeding *feeding, uint64_t key, struct alarm *alarm)
{
    bool is_new = false;
    const struct counting one = {track(feeding, key, &is_new), 1, (uint64_t)feeding->rule->threshold};

    return counted_amount(feeding, &one, alarm);
}

/* ---- many of something ---- */

static bool detect_denials(struct feeding *feeding, struct alarm *alarm)
{
    if (!is_outcome(feeding->leaf, "denied")) return false;
    name_actor(feeding->leaf, alarm);
    return counted(feeding, key_of_text(feeding, "actor", feeding->leaf->actor), alarm);
}

bool detector_is_pull(const struct leaf *leaf)
{
    return is_outcome(leaf, "allowed") &&
           (is_action(leaf, "manifest.read") || is_action(leaf, "blob.read") || is_action(leaf, "run.fetch"));
}

static void turn_half(struct seen *seen, int64_t half)
{
    if (half == seen->half) return;
    if (half == seen->half + 1) memcpy(seen->before, seen->now, sizeof seen->before);
    else memset(seen->before, 0, sizeof seen->before);
    memset(seen->now, 0, sizeof seen->now);
    seen->half = half;
}

/* Whether the artifact is a new one in this window. */
static bool note_artifact(struct feeding *feeding, const struct tracked *tracked)
{
    struct seen *seen = &feeding->state->seen[tracked - feeding->state->tracked];
    const int64_t half_ms = feeding->rule->window_s * 500;
    const uint64_t bit =
        table_hash(feeding->hash_key, bytes_of_text(feeding->leaf->targets[0].resource)) % ((uint64_t)SEEN_BYTES * 8);
    const uint8_t mask = (uint8_t)(1U << (bit % 8));

    turn_half(seen, feeding->leaf->time_ms / (half_ms > 0 ? half_ms : 1));
    const bool is_known = ((seen->now[bit / 8] | seen->before[bit / 8]) & mask) != 0;
    seen->now[bit / 8] |= mask;
    return !is_known;
}

static bool detect_pulls(struct feeding *feeding, struct alarm *alarm)
{
    bool is_new = false;

    if (!detector_is_pull(feeding->leaf)) return false;
    struct tracked *tracked = track(feeding, key_of_text(feeding, "actor", feeding->leaf->actor), &is_new);
    if (!note_artifact(feeding, tracked)) return false;
    name_actor(feeding->leaf, alarm);
    return counted(feeding, tracked->key, alarm);
}

/* An artifact counts once in a window, whatever part of it is read, and however often. */
static bool detect_bytes(struct feeding *feeding, struct alarm *alarm)
{
    bool is_new = false;

    if (feeding->known == NULL || feeding->known->size_bytes == 0 || !detector_is_pull(feeding->leaf)) return false;
    struct tracked *tracked = track(feeding, key_of_text(feeding, "actor", feeding->leaf->actor), &is_new);
    if (!note_artifact(feeding, tracked)) return false;
    name_actor(feeding->leaf, alarm);
    const struct counting bytes = {tracked, feeding->known->size_bytes, (uint64_t)feeding->rule->threshold * MIB};
    if (!counted_amount(feeding, &bytes, alarm)) return false;
    alarm->count /= MIB;
    return true;
}

/* ---- copies ---- */

/* An upload's bytes are there once it is completed; before that, its event only says that they may come. */
bool detector_is_arrival(const struct leaf *leaf)
{
    if (is_action(leaf, "upload.commit") || is_action(leaf, "upload.begin")) return is_outcome(leaf, "completed");
    return (is_action(leaf, "blob.mount") || is_action(leaf, "manifest.push") || is_action(leaf, "manifest.promote")) &&
           (is_outcome(leaf, "allowed") || is_outcome(leaf, "completed"));
}

/* A dataset of many blobs is one cause. */
static bool detect_copy(struct feeding *feeding, struct alarm *alarm)
{
    if (feeding->known == NULL || feeding->known->copy[0] == '\0') return false;
    name_actor(feeding->leaf, alarm);
    (void)snprintf(alarm->about, sizeof alarm->about, "%s", feeding->known->copy);
    return counted(feeding, key_of_text(feeding, "copy", feeding->known->copy), alarm);
}

/* ---- policies ---- */

/* Of an actor and an exception, or a list of those that are told, one alarm in a window. After a start the alarm in the log gives the same key. */
static bool counted_about(struct feeding *feeding, struct alarm *alarm)
{
    char both[sizeof alarm->actor + sizeof alarm->about];

    name_actor(feeding->leaf, alarm);
    (void)snprintf(both, sizeof both, "%s %s", alarm->actor, alarm->about);
    return counted(feeding, key_of_text(feeding, "about", both), alarm);
}

/* "use 3 of ID", or "uses 3 and 7" of several, which the event's facts name. */
static bool detect_exception(struct feeding *feeding, struct alarm *alarm)
{
    static const char one[] = "use ", several[] = "uses ";
    const char *note = feeding->leaf->reason.note, *of = strstr(note, " of ");
    const bool is_one = strncmp(note, one, sizeof one - 1) == 0 && of != NULL;

    if (!is_outcome(feeding->leaf, "allowed") || (!is_one && strncmp(note, several, sizeof several - 1) != 0)) return false;
    (void)snprintf(alarm->about, sizeof alarm->about, "exception=%.*s", is_one ? (int)strcspn(of + 4, " ;") : 7,
                   is_one ? of + 4 : "several");
    return counted_about(feeding, alarm);
}

bool detector_is_done(const struct leaf *leaf)
{
    return is_outcome(leaf, "allowed") || is_outcome(leaf, "completed");
}

/* Nobody is told of what did not happen: it is refused, and the log has that. */
static bool detect_notify(struct feeding *feeding, struct alarm *alarm)
{
    if (feeding->known == NULL || feeding->known->told[0] == '\0' || !detector_is_done(feeding->leaf)) return false;
    (void)snprintf(alarm->about, sizeof alarm->about, "told=%s", feeding->known->told);
    return counted_about(feeding, alarm);
}

/* ---- places ---- */

static bool detect_country(struct feeding *feeding, struct alarm *alarm)
{
    if (feeding->known == NULL || !feeding->known->is_new_country) return false;
    name_actor(feeding->leaf, alarm);
    return alone(feeding, alarm);
}

static bool detect_network(struct feeding *feeding, struct alarm *alarm)
{
    if (feeding->known == NULL || !feeding->known->is_new_network) return false;
    name_actor(feeding->leaf, alarm);
    return alone(feeding, alarm);
}

/* ---- officers ---- */

static bool detect_break_glass(struct feeding *feeding, struct alarm *alarm)
{
    const struct leaf *leaf = feeding->leaf;
    const bool is_grant = is_action(leaf, "binding.create") && !is_outcome(leaf, "denied") && !is_outcome(leaf, "failed") &&
                          strstr(detail_of(leaf), "break-glass") != NULL;

    const bool is_broken = is_action(leaf, "breakglass.approve") && is_outcome(leaf, "allowed");

    const bool is_replaced =
        is_action(leaf, "key.replace") && is_outcome(leaf, "allowed"); /* without a signature of the key before */

    if (!is_grant && !is_broken && !is_replaced && !is_action(leaf, "administrator.replace")) return false;
    name_actor(leaf, alarm);
    return alone(feeding, alarm);
}

/* What one person asks for and another one approves. */
static const struct {
    const char *asks, *approves;
} pairs[] = {{"rule.draft", "rule.approve"},
             {"groups.draft", "groups.approve"},
             {"role.draft", "role.approve"},
             {"persons.draft", "persons.approve"},
             {"officers.draft", "officers.approve"},
             {"scim.draft", "scim.approve"},
             {"sink.draft", "sink.approve"},
             {"detection.draft", "detection.approve"},
             {"breakglass.request", "breakglass.approve"},
             {"key.enroll", "key.approve"},
             {"key.enroll", "key.replace"},
             {"runner.invite", "runner.approve"},
             {"runner.invite", "runner.confirm"},
             {"run.request", "run.approve"}};

/* A person may have two accounts, or act as a robot, behind which others may be, too. Somebody who is no person stands for itself. */
static size_t dealer_count(const struct feeding *feeding)
{
    return feeding->known == NULL || feeding->known->person_count == 0 ? 1 : feeding->known->person_count;
}

static const char *dealer_at(const struct feeding *feeding, size_t number)
{
    return feeding->known == NULL || feeding->known->person_count == 0 ? feeding->leaf->actor : feeding->known->persons[number];
}

/* The last word of a detail: the digest of a document, which its draft and its approval have in common; or the id of a run. */
static const char *last_word(const char *detail)
{
    const char *blank = strrchr(detail, ' ');

    return blank == NULL ? detail : blank + 1;
}

/* What one of the dealers has asked for: anything of this kind, or this one. */
static struct tracked *track_kind(struct feeding *feeding, const char *asks, const char *dealer, bool *is_new)
{
    char kind[64];

    (void)snprintf(kind, sizeof kind, "%s by", asks);
    return track(feeding, key_of_text(feeding, kind, dealer), is_new);
}

static struct tracked *track_one(struct feeding *feeding, const char *asks, const char *dealer, bool *is_new)
{
    char what[LEAF_DETAIL_MAX + 82];

    (void)snprintf(what, sizeof what, "%.140s %.79s", last_word(detail_of(feeding->leaf)), dealer);
    return track(feeding, key_of_text(feeding, asks, what), is_new);
}

static void begin(const struct leaf *leaf, struct tracked *tracked)
{
    tracked->event_count = 0;
    tracked->muted_ms = 0;
    tracked->slice = leaf->time_ms;
    note_number(tracked, leaf->sequence);
}

static void note_request(struct feeding *feeding, const char *asks)
{
    bool is_new = false;

    for (size_t i = 0; i < dealer_count(feeding); i++) {
        begin(feeding->leaf, track_kind(feeding, asks, dealer_at(feeding, i), &is_new));
        begin(feeding->leaf, track_one(feeding, asks, dealer_at(feeding, i), &is_new));
    }
}

static bool is_within(const struct feeding *feeding, const struct tracked *tracked, bool is_new)
{
    return !is_new && tracked->event_count > 0 && tracked->muted_ms == 0 &&
           feeding->leaf->time_ms - tracked->slice <= feeding->rule->window_s * 1000;
}

static bool raise(struct feeding *feeding, struct tracked *tracked, struct alarm *alarm)
{
    tracked->muted_ms = 1; /* of one request one alarm */
    note_number(tracked, feeding->leaf->sequence);
    take_events(tracked, alarm);
    alarm->count = alarm->event_count;
    name_actor(feeding->leaf, alarm);
    return true;
}

/* The gateway refuses such an approval, so it was tried; or it was given, although the gateway must refuse it. Of several dealers one alarm is enough. */
static bool is_approved_by_itself(struct feeding *feeding, const char *asks, struct alarm *alarm)
{
    const struct leaf *leaf = feeding->leaf;
    const bool is_refused = is_outcome(leaf, "denied") || is_outcome(leaf, "failed");
    bool is_raised = false;

    for (size_t i = 0; i < dealer_count(feeding); i++) {
        bool is_new = false;
        const char *dealer = dealer_at(feeding, i);
        struct tracked *tracked =
            is_refused ? track_kind(feeding, asks, dealer, &is_new) : track_one(feeding, asks, dealer, &is_new);
        if (!is_within(feeding, tracked, is_new)) continue;
        if (is_raised) tracked->muted_ms = 1;
        else is_raised = raise(feeding, tracked, alarm);
    }
    return is_raised;
}

bool detector_is_dealing(const struct leaf *leaf)
{
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        if (is_action(leaf, pairs[i].asks) || is_action(leaf, pairs[i].approves)) return true;
    return false;
}

static bool detect_self_dealing(struct feeding *feeding, struct alarm *alarm)
{
    const struct leaf *leaf = feeding->leaf;

    if (strlen(leaf->actor) != 64) return false;
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        if (is_action(leaf, pairs[i].asks) && is_outcome(leaf, "allowed")) note_request(feeding, pairs[i].asks);
        if (is_action(leaf, pairs[i].approves) && is_approved_by_itself(feeding, pairs[i].asks, alarm)) return true;
    }
    return false;
}

/* ---- the log itself ---- */

static bool detect_gap(struct feeding *feeding, struct alarm *alarm)
{
    const struct leaf *leaf = feeding->leaf;
    char source[128];
    bool is_new = false;

    (void)snprintf(source, sizeof source, "%s %" PRIu64, leaf->source.instance, leaf->source.boot);
    struct tracked *gateway = track(feeding, key_of_text(feeding, "source", source), &is_new);
    const bool has_gap = !is_new && leaf->source.number > gateway->other + 1;
    if (is_new || leaf->source.number > gateway->other) gateway->other = leaf->source.number;
    if (!has_gap && !is_action(leaf, "log.unrecorded")) return false;
    return counted(feeding, key_of_text(feeding, "log", ""), alarm); /* a gap and its log.unrecorded have one cause */
}

static bool detect_clock(struct feeding *feeding, struct alarm *alarm)
{
    return is_action(feeding->leaf, "clock.step") && counted(feeding, key_of_text(feeding, "clock", ""), alarm);
}

static bool detect_sink(struct feeding *feeding, struct alarm *alarm)
{
    return is_action(feeding->leaf, "sink.stop") && alone(feeding, alarm);
}

static bool detect_region(struct feeding *feeding, struct alarm *alarm)
{
    return is_action(feeding->leaf, "region.quarantine") && is_outcome(feeding->leaf, "completed") && alone(feeding, alarm);
}

/* A new set may concern thousands of repositories: that is one cause. */
static bool detect_place(struct feeding *feeding, struct alarm *alarm)
{
    if (!is_action(feeding->leaf, "placement.quarantine") || !is_outcome(feeding->leaf, "allowed")) return false;
    return counted(feeding, key_of_text(feeding, "place", ""), alarm);
}

detector_function *const detector_functions[DETECTOR_COUNT] = {[DETECTOR_DENIALS] = detect_denials,
                                                               [DETECTOR_PULLS] = detect_pulls,
                                                               [DETECTOR_BYTES] = detect_bytes,
                                                               [DETECTOR_COUNTRY] = detect_country,
                                                               [DETECTOR_NETWORK] = detect_network,
                                                               [DETECTOR_BREAK_GLASS] = detect_break_glass,
                                                               [DETECTOR_SELF_DEALING] = detect_self_dealing,
                                                               [DETECTOR_GAP] = detect_gap,
                                                               [DETECTOR_CLOCK] = detect_clock,
                                                               [DETECTOR_SINK] = detect_sink,
                                                               [DETECTOR_COPY] = detect_copy,
                                                               [DETECTOR_REGION] = detect_region,
                                                               [DETECTOR_EXCEPTION] = detect_exception,
                                                               [DETECTOR_NOTIFY] = detect_notify,
                                                               [DETECTOR_PLACE] = detect_place};
