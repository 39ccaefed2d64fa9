/*
 * gateway/pipeline/gateway.h -- what all requests of one gateway share.
 *
 * Nothing in here changes while requests run: each part guards itself. gateway/gateway.h opens and closes the parts.
 */
#pragma once

#include <stdatomic.h>

#include "base/work.h"
#include "gateway/http/quota.h"
#include "gateway/settings/settings.h"

struct allotment;
struct authenticator;
struct authz_directory;
struct decider;
struct janitor;
struct places;
struct keyd_client;
struct pauser;
struct pg_table;
struct registry;
struct route_table;
struct sequencer;
struct upkeep;
struct log_patrol;

struct gateway {
    const struct settings *settings;
    const struct route_table *routes;
    const struct pg_table *const *tables; /* of statements, for those who open connections: NULL-terminated */
    char origin[128];                    /* of the audit log, from keyd: Sijil-Audit is "<origin>/<sequence>" */
    struct keyd_client *keyd;
    struct sequencer *sequencer;
    struct log_patrol *patrol;           /* goes through the log again and again */
    struct decider *decider;
    struct authz_directory *directory;   /* the newest snapshot of robots and issuers */
    struct authenticator *authenticator;
    struct registry *registry;           /* regions, uploads, keys: registry/registry.h */
    struct work_pool *readers;           /* decisions and handlers; each worker has its own struct pg */
    struct work_pool *movers;            /* bodies that come in; the same */
    struct work_pool *senders;           /* bodies that go out: never behind uploads that wait for a disk. No database */
    struct quota *quota;
    struct janitor *janitor;             /* cleans up behind uploads */
    struct places *places;               /* asks how the regions are */
    struct upkeep *upkeep;               /* works on jobs: scrubs, re-wraps, collections */
    struct allotment *allotment;         /* requests of projects with a quota of events */
    struct pauser *pauser;               /* requests that wait for a time */
    _Atomic int streams;                 /* bodies that come in: gateway/pipeline/streams.c */
    _Atomic int64_t gathered_bytes[QUOTA_HELD]; /* memory of gathered bodies, by their kind: gateway/pipeline/body_memory.c */
};
