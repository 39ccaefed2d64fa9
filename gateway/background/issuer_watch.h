/*
 * gateway/background/issuer_watch.h -- threads that keep the keys of issuers current that are followed.
 *
 * Rule: no request waits for them. Two threads ask issuers that answered well the last time, and two others those that did not: an issuer that hangs
 * costs a call of ISSUER_CALL_S once, and then waits with its like. The rows of authz/issuer_jobs.h say who is next, for all gateways together.
 */
#pragma once

#include "base/owned.h"
#include "base/result.h"

struct gateway;
struct issuer_watch;

RESULT issuer_watch_start(struct gateway *gateway, struct issuer_watch **watch_out, struct error *err);
/** An attempt that is under way ends within a second. */
void issuer_watch_free(struct issuer_watch *watch);
DEFINE_OWNED(issuer_watch);
