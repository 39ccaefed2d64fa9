/*
 * documents/format/audit_sink.h -- sinks: where events of the log are delivered, and how much of each (docs/delivery.md).
 *
 * A document of the kind audit-sink, of the registry. It names a region of the policy set: each event is decided towards this region before it
 * leaves. Two approvers of different principals sign it, or the root; one of them signs a withdrawal. Each version replaces the one before.
 */
#pragma once

#include "base/network.h"
#include "documents/format/document.h"

#define AUDIT_SINK_NAME_MAX    63
#define AUDIT_SINK_ADDRESS_MAX 255
#define AUDIT_SINK_FILE_MAX    64
#define AUDIT_SINK_CA_MAX      ((size_t)8 * 1024) /* PEM */
#define AUDIT_SINK_PURPOSE_MAX 256
#define AUDIT_SINK_REGION_MAX  63 /* the id of a region in a policy set */
#define AUDIT_SINK_DAYS_MAX    732
#define AUDIT_SINK_BYTES_MAX   ((size_t)16 * 1024)

#define SINK_TRANSPORTS(X)     \
    X(SINK_SYSLOG, "syslog")   \
    X(SINK_WEBHOOK, "webhook") \
    X(SINK_FILE, "file")
enum sink_transport {
#define X(constant, name) constant,
    SINK_TRANSPORTS(X)
#undef X
        SINK_TRANSPORT_COUNT
};

/** What a class of events may be delivered without. */
#define SINK_FIELDS(X)                 \
    X(SINK_HIDES_ACTOR, "actor")       \
    X(SINK_HIDES_RESOURCE, "resource") \
    X(SINK_HIDES_DETAIL, "detail")     \
    X(SINK_HIDES_REGION, "region")     \
    X(SINK_HIDES_RULES, "rules")       \
    X(SINK_HIDES_REQUEST, "request")   \
    X(SINK_HIDES_RAW, "raw")
enum sink_field {
#define X(constant, name) constant,
    SINK_FIELDS(X)
#undef X
        SINK_FIELD_COUNT
};

/** The classes of events, with their numbers in OCSF. */
#define SINK_CLASSES(X)                                          \
    X(SINK_AUTHENTICATION, "authentication", 3002)               \
    X(SINK_API_ACTIVITY, "api-activity", 6003)                   \
    X(SINK_APPLICATION_LIFECYCLE, "application-lifecycle", 6002) \
    X(SINK_DETECTION_FINDING, "detection-finding", 2004)
enum sink_class {
#define X(constant, name, number) constant,
    SINK_CLASSES(X)
#undef X
        SINK_CLASS_COUNT
};
/** False: the class is none of ours. `number`: 3002 of the type 300201. */
bool sink_class_find(uint32_t number, enum sink_class *class_out);

/** Views into the document, which must stay. */
struct audit_sink {
    enum sink_transport transport;
    const char *region;
    const char *address;              /* "siem.example:6514"; "https://siem.example/hook"; the name of a file */
    const char *ca;                   /* PEM, the only authorities that are trusted; NULL: those of the system */
    struct networks networks;         /* count 0: any address that may usually be called */
    const char *purpose;              /* for which names of persons are delivered; NULL: pseudonyms alone */
    bool signs_ed25519;               /* of a webhook: signatures v1a; else v1 (HMAC) */
    unsigned classes;                 /* bits of enum sink_class: the others leave their number only */
    unsigned hides[SINK_CLASS_COUNT]; /* bits of enum sink_field */
};
/** Reads the body of a document of this kind that is no withdrawal. ERROR_INVALID names what is wrong. */
RESULT audit_sink_read(const struct document *document, struct audit_sink *sink_out, struct error *err);
