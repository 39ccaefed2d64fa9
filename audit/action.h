/*
 * audit/action.h -- the actions that the log knows, and the resources that they act on.
 *
 * A decision is made on pairs (action, resource); an event records these pairs, and a permit allows them. The table of
 * actions is audit/actions.def.
 */
#pragma once

#include "base/uuid.h"

/** The operations that residency policies decide on (policy documents, "ops"); a set of bits. */
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
    OP_STAT = 1 << 14, /* whether it exists, and its size */
    OP_LIST = 1 << 15, /* names of repositories and tags, and manifests that refer to another one */
};
#define OP_COUNT      16
#define OP_OF_CLIENTS (OP_READ | OP_STAT | OP_LIST) /* facts of the client decide these; facts of a region decide the others */

enum action {
#define X(constant, name, ocsf_type, operations, permitted) constant,
#include "audit/actions.def"
#undef X
    ACTION_COUNT
};

/** The name in the log and in error messages, such as "blob.read". */
const char *action_name(enum action action);
unsigned action_ocsf_type(enum action action);
/** The bits of enum policy_operation. */
unsigned action_operations(enum action action);
bool action_find(struct bytes name, enum action *action_out);

enum resource_kind { RESOURCE_SYSTEM, RESOURCE_ORGANISATION, RESOURCE_PROJECT, RESOURCE_REPOSITORY };

#define RESOURCE_NAME_MAX   255 /* OCI names: clients cap host and name together at 255 */
#define RESOURCE_DETAIL_MAX 140 /* "sha512:" and 128 hex digits, or a tag of 128, with room */
#define CHANGE_DETAIL_MAX   1700 /* the detail of a change: a digest of 135 characters and twelve tags of 128, each after a space */
#define REGION_ID_MAX       63   /* "provider/region" */

/**
 * The registry, an organisation, a project or a repository, and the thing in it that the action is about. An id is nil if it
 * is unknown or does not exist; the name is then as the caller gave it. Holds no pointer, so it may be copied.
 */
struct resource {
    enum resource_kind kind;
    struct uuid organisation, project, repository;
    char name[RESOURCE_NAME_MAX + 1];     /* "acme/models/digits", "acme/models", "acme", or "" for the system */
    char detail[RESOURCE_DETAIL_MAX + 1]; /* a digest, tag, upload or robot; "" if the action is about the whole node */
    char region[REGION_ID_MAX + 1];       /* where the bytes are or will be; "" if the action touches no bytes */
};

struct action_pair {
    enum action action;
    struct resource resource;
};
#define ACTION_PAIRS_MAX 4 /* a mount needs two; more pairs would hide what a request does */
