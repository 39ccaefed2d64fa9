/*
 * documents/format/detection_rule.h -- rules that watch the log and raise alarms (docs/detection.md).
 *
 * A document of the kind detection-rule, of the registry. Its name is the rule's. There is a default rule for each detector, with the detector's
 * name: a document of this name takes its place, and may switch it off. Two approvers of different principals sign a rule, or the root; one of
 * them signs a withdrawal. Each version replaces the one before.
 */
#pragma once

#include "documents/format/document.h"

#define DETECTION_NAME_MAX      63
#define DETECTION_DAYS_MAX      732
#define DETECTION_THRESHOLD_MAX 10000
#define DETECTION_MIB_MAX       1073741824 /* of mass-pull-bytes: 2^30 MiB */
#define DETECTION_WINDOW_MAX_S  604800     /* a week */
#define DETECTION_SEVERITY_MAX  5          /* OCSF: 1 informational, 2 low, 3 medium, 4 high, 5 critical */
#define DETECTION_BYTES_MAX     ((size_t)8 * 1024)

/** DETECTOR(constant, "name", default threshold, default seconds of the window, default severity, on by default). */
#define DETECTORS(X)                                            \
    X(DETECTOR_DENIALS, "denial-burst", 20, 300, 3, true)       \
    X(DETECTOR_PULLS, "mass-pull", 500, 3600, 4, true)          \
    X(DETECTOR_BYTES, "mass-pull-bytes", 262144, 3600, 4, true) \
    X(DETECTOR_COUNTRY, "new-country", 1, 0, 4, true)           \
    X(DETECTOR_NETWORK, "new-network", 1, 0, 2, false)          \
    X(DETECTOR_BREAK_GLASS, "break-glass", 1, 0, 5, true)       \
    X(DETECTOR_SELF_DEALING, "self-dealing", 1, 86400, 5, true) \
    X(DETECTOR_GAP, "log-gap", 1, 300, 4, true)                 \
    X(DETECTOR_CLOCK, "clock-step", 1, 300, 3, true)            \
    X(DETECTOR_SINK, "sink-stopped", 1, 0, 3, true)             \
    X(DETECTOR_COPY, "laxer-copy", 1, 3600, 4, true)            \
    X(DETECTOR_REGION, "region-quarantined", 1, 0, 5, true)     \
    X(DETECTOR_EXCEPTION, "exception-use", 1, 3600, 3, true)    \
    X(DETECTOR_NOTIFY, "policy-notify", 1, 3600, 3, true)       \
    X(DETECTOR_PLACE, "content-misplaced", 1, 300, 5, true)
enum detector {
#define X(constant, name, threshold, window_s, severity, is_on) constant,
    DETECTORS(X)
#undef X
        DETECTOR_COUNT
};
const char *detector_name(enum detector detector);
bool detector_find(const char *name, enum detector *detector_out);

struct detection_rule {
    char name[DETECTION_NAME_MAX + 1];
    enum detector detector;
    int64_t threshold; /* so many make an alarm; of mass-pull-bytes: so many MiB */
    int64_t window_s;  /* within so many seconds; 0: the detector has no window */
    int64_t severity;
    bool is_off;
};
/** The default rule of a detector. */
struct detection_rule detection_rule_default(enum detector detector);
/** Reads the body of a document of this kind that is no withdrawal. ERROR_INVALID names what is wrong. */
RESULT detection_rule_read(const struct document *document, struct detection_rule *rule_out, struct error *err);
