#include "gateway/background/token_keys.h"

#include "authz/authenticate.h"
#include "authz/dpop_nonces.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/thread.h"
#include "crypto/keyd_client.h"
#include "gateway/pipeline/gateway.h"

#define ASK_EVERY_MS 60000

struct token_keys_watch {
    struct gateway *gateway;
    bool is_failed; /* the log says so already */
    struct thread thread;
};

static struct result ask(struct gateway *gateway, struct error *err)
{
    struct keyd_token_keys keys;
    struct keyd_nonces nonces;

    TRY(keyd_token_keys(gateway->keyd, &keys, err));
    TRY(authenticator_set_keys(gateway->authenticator, (const uint8_t(*)[65])keys.each, keys.count, err));
    TRY(keyd_nonces(gateway->keyd, &nonces, err));
    return dpop_nonces_set(gateway->nonces, &nonces, err);
}

static void *watch_main(void *argument)
{
    struct token_keys_watch *watch = argument;

    while (thread_sleep(&watch->thread, ASK_EVERY_MS)) {
        struct error err = {0};
        const bool is_well = ask(watch->gateway, &err).ok;
        if (!is_well && !watch->is_failed)
            log_error("the keys of tokens and nonces can't be asked for; those that are known stay", &err);
        watch->is_failed = !is_well;
    }
    return NULL;
}

struct result token_keys_start(struct gateway *gateway, struct token_keys_watch **watch_out, struct error *err)
{
    OWNED(token_keys_watch) *watch = memory_zeroed(1, sizeof *watch);

    if (watch == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the keys of tokens");
    watch->gateway = gateway;
    TRY(ask(gateway, err));
    TRY(thread_start(&watch->thread, watch_main, watch, "asks for the keys of tokens", err));
    *watch_out = GIVE(watch);
    return SUCCESS;
}

void token_keys_watch_free(struct token_keys_watch *watch)
{
    if (watch == NULL) return;
    thread_stop(&watch->thread);
    free(watch);
}
