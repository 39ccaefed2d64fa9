/*
 * gateway/pipeline/gateway.h -- the parts that all requests of one gateway share.
 *
 * The pointers do not change while requests run, and each part is thread-safe. gateway/gateway.h opens and closes the parts.
 */
#pragma once

#include <stdatomic.h>

#include "base/work.h"
#include "gateway/http/condition.h"
#include "gateway/http/quota.h"
#include "gateway/settings/settings.h"

struct audit_index;
struct delivery;
struct detection;
struct event_quota;
struct authenticator;
struct authz_directory;
struct decider;
struct dpop_nonces;
struct document_view;
struct introspect;
struct introspection;
struct issuer_watch;
struct maintenance;
struct copying;
struct peering;
struct region_watch;
struct run_admission;
struct run_dispatch;
struct run_endings;
struct keyd_client;
struct lease_proofs;
struct passings;
struct pauser;
struct pg_table;
struct registry;
struct route_table;
struct sequencer;
struct job_workers;
struct log_verifier;
struct token_keys_watch;
struct witness_feed;

struct gateway {
    const struct settings *settings;
    const struct route_table *routes;
    const struct pg_table *const *tables; /* of statements, for new connections: NULL-terminated */
    struct buffer description;            /* of all routes: gateway/api/openapi.h */
    char description_etag[ENTITY_TAG_SIZE];
    uint8_t runner_authority[65]; /* of keyd: verifies certificates of runners (crypto/runner_certificate.h) */
    char origin[128];             /* the name of the registry, from keyd: sealed parts and documents are bound to it */
    char log_name[128]; /* of the log that is signed now; the same, until a recovery: Sijil-Audit is "<log_name>/<sequence>" */
    struct keyd_client *keyd;
    struct sequencer *sequencer;
    struct log_verifier *log_verifier; /* goes through the log again and again */
    struct decider *decider;
    struct document_view *documents;   /* signed documents that are in force: documents/view.h */
    struct authz_directory *directory; /* robots and issuers of the newest snapshot */
    struct authenticator *authenticator;
    struct dpop_nonces *nonces;  /* that proofs of keys must repeat */
    struct registry *registry;   /* regions, uploads, keys: registry/registry.h */
    struct work_pool *readers;   /* run decisions and handlers; each worker has its own struct pg */
    struct work_pool *receivers; /* write bodies that come in; these too have a struct pg each */
    struct work_pool *senders;   /* read bodies that go out, so that these never wait behind uploads. No database */
    struct quota *quota;
    struct audit_index *audit_index;            /* writes the index of searches of the log */
    struct delivery *delivery;                  /* delivers the log to sinks */
    struct detection *detection;                /* watches the log */
    struct introspect *introspect;              /* asks issuers about opaque tokens; NULL: none is asked */
    struct introspection *introspection;        /* what they said; NULL: none is asked */
    struct issuer_watch *issuer_watch;          /* keeps the keys of issuers current */
    struct maintenance *maintenance;            /* cleans up ended uploads */
    struct region_watch *region_watch;          /* checks the regions */
    struct token_keys_watch *token_keys;        /* knows the keys of tokens */
    struct witness_feed *witness_feed;          /* has the log cosigned; NULL: no witnesses are configured */
    struct copying *copying;                    /* makes copies in further regions */
    struct peering *peering;                    /* gives copies to gateways of other regions; NULL: it gives none */
    struct passings *passings;                  /* asks gateways of other regions for clients; NULL: there are none */
    struct job_workers *job_workers;            /* work on jobs: scrubs, re-wraps, collections */
    struct event_quota *event_quota;            /* counts requests of projects with a quota of events */
    struct pauser *pauser;                      /* requests that wait for a time */
    struct run_endings *run_endings;            /* leases whose bodies move */
    struct lease_proofs *lease_proofs;          /* leases whose signatures were checked */
    struct run_dispatch *run_dispatch;          /* orders runs, and wakes runners */
    struct run_admission *run_admission;        /* admits finished runs */
    atomic_bool is_without_quorum;              /* for too long no quorum of witnesses has cosigned the log: changes wait */
    _Atomic bool is_starting;                   /* not closed off yet, so not ready */
    _Atomic int bundles;                        /* large answers on their way out: gateway/api/large.c */
    _Atomic int streams;                        /* bodies that come in: gateway/pipeline/stream.c */
    _Atomic int64_t gathered_bytes[QUOTA_HELD]; /* memory of gathered bodies, by their kind: gateway/pipeline/body_memory.c */
};
