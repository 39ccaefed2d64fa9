/* detection/engine_priv.h -- the state of one rule, and the detectors. */
#pragma once

#include "crypto/hmac.h"
#include "detection/engine.h"

#define SLICES     8 /* of a window: it slides by an eighth */
#define SEEN_BYTES 2048

/* What is tracked under one key: an actor, a document, a gateway. */
struct tracked {
    uint64_t key;              /* 0: free */
    int64_t used_ms, muted_ms; /* until then no further alarm */
    int64_t slice;             /* the number of the newest slice: time by its length; of a request its time */
    uint64_t counts[SLICES];
    uint64_t other; /* of self-dealing: who; of gaps: the last number */
    size_t event_count;
    uint64_t events[ALARM_EVENTS_MAX];
};
/* Of mass pulls, also by bytes: which artifacts were seen, in this half of the window and in the one before. A bit may stand for two artifacts. */
struct seen {
    int64_t half;
    uint8_t now[SEEN_BYTES], before[SEEN_BYTES];
};
struct rule_state {
    struct tracked tracked[DETECTION_TRACKED_MAX];
    struct seen *seen; /* DETECTION_TRACKED_MAX of them, or NULL */
};

/** A rule, its state, and the event that it takes. */
struct feeding {
    const struct detection_rule *rule;
    struct rule_state *state;
    const struct leaf *leaf;
    const struct event_known *known;
    const uint8_t *hash_key;
};
uint64_t key_of_text(const struct feeding *feeding, const char *kind, const char *text);
/** The entry of a key; *is_new_out: it was not tracked. */
struct tracked *track(struct feeding *feeding, uint64_t key, bool *is_new_out);
/** Something to be counted under an entry: `amount` of the event, and how much makes an alarm. */
struct counting {
    struct tracked *tracked;
    uint64_t amount, threshold;
};
/** True: the threshold is reached, and no alarm of this entry is muted; the count begins anew. */
bool count_event(struct feeding *feeding, const struct counting *counting, uint64_t *count_out);
void note_number(struct tracked *tracked, uint64_t number);

/** Each detector: whether this event makes an alarm. It sets actor, count and events. */
typedef bool detector_function(struct feeding *feeding, struct alarm *alarm);
extern detector_function *const detector_functions[DETECTOR_COUNT];
/** Whether bytes of an artifact are read. */
bool detector_is_pull(const struct leaf *leaf);
/** Whether bytes have come into a repository: a blob, or a manifest, which may have brought a label. */
bool detector_is_arrival(const struct leaf *leaf);
/** Whether what the event tells of was done, or begun. */
bool detector_is_done(const struct leaf *leaf);
/** Whether somebody asks for something, or approves it. */
bool detector_is_dealing(const struct leaf *leaf);
