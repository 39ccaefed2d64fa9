/*
 * audit/action.h -- what is done, and to what.
 *
 * A pair (action, resource) is what a decision is about, what an event records
 * and what a permit names. The table of actions is audit/actions.def.
 */
#pragma once

#include "base/uuid.h"

/** What residency policies are asked about (policy documents, "ops"); a set of bits. */
enum policy_operation {
    OP_NONE = 0,
    OP_INGEST = 1 << 0,
    OP_MOUNT = 1 << 1,
    OP_REPLICATE = 1 << 2,
    OP_MIGRATE = 1 << 3,
    OP_CACHE = 1 << 4,
    OP_BACKUP = 1 << 5,
    OP_RESTORE = 1 << 6,
    OP_READ = 1 << 7,
    OP_TRAIN = 1 << 8,
    OP_PROMOTE = 1 << 9,
    OP_METADATA = 1 << 10,
    OP_LOG = 1 << 11,
    OP_KEY_WRAP = 1 << 12,
    OP_EXPORT = 1 << 13,
    OP_STAT = 1 << 14, /* is it there, and how large */
    OP_LIST = 1 << 15, /* names: of repositories, of tags, of what refers to a manifest */
};
#define OP_COUNT 16
#define OP_OF_CLIENTS (OP_READ | OP_STAT | OP_LIST) /* judge the client; all others judge a region */

enum action {
#define X(constant, name, ocsf_type, operations) constant,
#include "audit/actions.def"
#undef X
    ACTION_COUNT
};

/** "blob.read" and so on, as the log and the errors have it. */
const char *action_name(enum action action);
unsigned action_ocsf_type(enum action action);
/** The bits of enum policy_operation. */
unsigned action_operations(enum action action);
bool action_find(struct bytes name, enum action *action_out);

enum resource_kind { RESOURCE_SYSTEM, RESOURCE_ORGANISATION, RESOURCE_PROJECT, RESOURCE_REPOSITORY };

#define RESOURCE_NAME_MAX   255 /* OCI names: clients cap host and name together at 255 */
#define RESOURCE_DETAIL_MAX 140 /* "sha512:" and 128 hex digits, or a tag of 128, with room */
#define CHANGE_DETAIL_MAX   1700 /* what a change adds: a digest of 135 and twelve tags of 128, each behind a blank */
#define REGION_ID_MAX       63  /* "provider/region" */

/**
 * A place in organisation > project > repository, and what is touched there. Ids that are not known, or do not
 * exist, are nil; the name is then what the caller asked for. Holds no pointer, so it may be copied.
 */
struct resource {
    enum resource_kind kind;
    struct uuid organisation, project, repository;
    char name[RESOURCE_NAME_MAX + 1];     /* "acme/models/digits", "acme/models", "acme", or "" for the system */
    char detail[RESOURCE_DETAIL_MAX + 1]; /* a digest, tag, upload or robot; "" if the whole thing is meant */
    char region[REGION_ID_MAX + 1];       /* where its bytes are or will be; "" if none are touched */
};

struct action_pair {
    enum action action;
    struct resource resource;
};
#define ACTION_PAIRS_MAX 4 /* a mount asks for two; more would hide what a request does */
