/* The policy of witnesses as sijil-keyd pins it, and what sijil-keyd is shown of what they cosign. */
#include <poll.h>
#include <signal.h>
#include <string.h>

#include "audit/cosigned_jobs.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "crypto/digest.h"
#include "crypto/dsse.h"
#include "gateway/background/witness_feed_priv.h"

#define OPEN_KEYD_MS   60000 /* that a start waits for the witnesses */
#define TRY_EVERY_MS   1000
#define PATIENCE_SHARE 4 /* an idle log is cosigned so often while sijil-keyd would wait for a quorum */

/* The signed form is JSON, and a policy never begins like that. */
static bool is_envelope(struct bytes file)
{
    return file.length > 0 && file.data[0] == '{';
}

/* Behind the first line, which has origin and epoch. sijil-keyd checks the signature, and that line. */
static struct result open_envelope(struct witness_feed *feed, struct error *err)
{
    OWNED(dsse) *dsse = NULL;

    TRY(dsse_read(buffer_bytes(&feed->file), KEYD_WITNESS_ENVELOPE_MAX, &dsse, err));
    const struct bytes payload = buffer_bytes(&dsse->payload);
    const uint8_t *end = payload.length == 0 ? NULL : memchr(payload.data, '\n', payload.length);
    if (end == NULL) return failure(err, ERROR_INVALID, "the signed policy of witnesses has no policy");
    return buffer_add(&feed->text, end + 1, payload.length - (size_t)(end + 1 - payload.data), err);
}

static struct result check_urls(const struct witness_policy *policy, struct error *err)
{
    for (size_t i = 0; i < policy->witness_count; i++)
        if (strncmp(policy->witnesses[i].url, "https://", strlen("https://")) != 0)
            return failure(err, ERROR_INVALID,
                           "the policy of witnesses: witness %.60s needs the URL that it is asked at, https://...",
                           policy->witnesses[i].member.name);
    return SUCCESS;
}

struct result witness_policy_open(struct witness_feed *feed, const char *path, struct error *err)
{
    feed->file = BUFFER(KEYD_WITNESS_ENVELOPE_MAX);
    feed->text = BUFFER(KEYD_WITNESS_POLICY_MAX);
    TRY(file_read(path, &feed->file, err));
    if (is_envelope(buffer_bytes(&feed->file))) TRY(open_envelope(feed, err));
    else TRY(buffer_add(&feed->text, feed->file.data, feed->file.length, err));
    TRY(witness_policy_read(buffer_bytes(&feed->text), &feed->policy, err));
    if (!witness_policy_is_about(feed->policy, witness_feed_keys(feed)))
        return failure(err, ERROR_INVALID, "the policy of witnesses does not list the key of this log (%.100s)",
                       witness_feed_keys(feed)->keys[0].name);
    return check_urls(feed->policy, err);
}

struct result witness_policy_pin(struct witness_feed *feed, struct error *err)
{
    const struct bytes file = buffer_bytes(&feed->file);
    const struct keyd_witness_policy policy = {.policy = buffer_bytes(&feed->text),
                                               .envelope = is_envelope(file) ? file : (struct bytes){0}};
    struct keyd_witnesses known;
    uint8_t digest[SHA256_SIZE];

    TRY(keyd_witnesses(feed->keyd, &known, err));
    sha256_of(policy.policy, digest);
    if (known.is_pinned && memcmp(digest, known.digest, sizeof digest) == 0) return SUCCESS;
    return keyd_pin_witnesses(feed->keyd, &policy, err);
}

struct result witness_policy_show(struct witness_feed *feed, const struct cosigned *cosigned, struct error *err)
{
    const struct keyd_cosigned shown = {.policy = buffer_bytes(&feed->text), .note = bytes_of_text(cosigned->checkpoint.note)};

    return keyd_cosigned(feed->keyd, &shown, err);
}

/* ---- sijil-keyd, after its start ---- */

/* The last checkpoint again: sijil-keyd signs a copy of what it has signed before. */
static struct result last_checkpoint(struct witness_feed *feed, const struct keyd_witnesses *known,
                                     struct signed_checkpoint *last_out, struct error *err)
{
    struct checkpoint_request request = {.old_size = known->log_size, .size = known->log_size, .now_s = clock_wall_ms() / 1000};
    struct buffer OWNED_BUFFER note = BUFFER(KEYD_NOTE_MAX);

    memcpy(request.root, known->log_root, sizeof request.root);
    TRY(keyd_sign_checkpoint(feed->keyd, &request, &note, err));
    return signed_checkpoint_read(witness_feed_keys(feed), buffer_bytes(&note), last_out, err);
}

static struct result open_keyd_once(struct witness_feed *feed, const struct keyd_witnesses *known, struct error *err)
{
    struct cosigned *cosigned = memory_zeroed(1, sizeof *cosigned);
    struct signed_checkpoint last;

    if (cosigned == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a cosigned checkpoint");
    struct result result = last_checkpoint(feed, known, &last, err);
    if (result.ok) witness_round_submit(feed, &last);
    if (result.ok) result = witness_round_collect(feed, cosigned, err);
    if (result.ok) result = witness_policy_show(feed, cosigned, err);
    free(cosigned);
    return result;
}

/* So many witnesses know a larger log that the others are no quorum: waiting is in vain. A single liar can't say so for all. */
static bool is_set_back(const struct witness_feed *feed, const struct keyd_witnesses *known)
{
    uint64_t others[WITNESS_POLICY_WITNESSES_MAX] = {0};

    for (size_t i = 0; i < feed->policy->witness_count; i++) {
        const struct witness_reply *reply = &feed->lanes[i].reply;
        others[i] = reply->end == WITNESS_KNOWS_OTHER && reply->size > known->log_size ? 0 : 1;
    }
    return !witness_policy_is_met(feed->policy, others, 0);
}

static struct result refuse_set_back(const struct keyd_witnesses *known, struct error *err)
{
    return failure(
        err, ERROR_FORKED,
        "the witnesses have cosigned more events than the %llu that sijil-keyd knows: the database and the folder of sijil-keyd "
        "were set back together. Restore the newest copies of both (docs/backup.md)",
        (unsigned long long)known->log_size);
}

/* Who starts a program has blocked these signals, and takes them once it serves. */
static bool is_told_to_end(void)
{
    sigset_t pending;

    return sigpending(&pending) == 0 && (sigismember(&pending, SIGTERM) == 1 || sigismember(&pending, SIGINT) == 1);
}

static void say_that_it_waits(struct witness_feed *feed, const struct error *why)
{
    if (feed->keyd_waits) return;
    feed->keyd_waits = true;
    log_error("sijil-keyd was started, and waits for the witnesses", why);
}

struct result witness_feed_open_keyd(struct witness_feed *feed, struct error *err)
{
    const int64_t until_ms = clock_monotonic_ms() + OPEN_KEYD_MS;
    struct keyd_witnesses known;
    struct error why = {0};

    TRY(keyd_witnesses(feed->keyd, &known, err));
    if (known.awaits) TRY(cosigned_check_end(feed->pg, known.log_size, err)); /* no witness could help then */
    while (known.awaits && !open_keyd_once(feed, &known, &why).ok) {
        TRY(keyd_witnesses(feed->keyd, &known, err)); /* another gateway may have been faster */
        if (!known.awaits) return SUCCESS;
        if (is_set_back(feed, &known)) return refuse_set_back(&known, err);
        if (why.kind == ERROR_FORKED) return failure(err, why.kind, "%s", why.message);
        say_that_it_waits(feed, &why);
        if (clock_monotonic_ms() >= until_ms || is_told_to_end()) {
            witness_round_say(feed);
            return failure(
                err, ERROR_UNAVAILABLE,
                "sijil-keyd signs nothing after its start until the quorum of witnesses has cosigned the last checkpoint: %.300s",
                why.message);
        }
        (void)poll(NULL, 0, TRY_EVERY_MS);
    }
    return SUCCESS;
}

/* sijil-keyd may have been started again; and it says when changes have to wait. */
void witness_keyd_look(struct witness_feed *feed)
{
    struct keyd_witnesses known;
    struct error err = {0};

    if (!keyd_witnesses(feed->keyd, &known, &err).ok) return; /* the signer says it */
    if (!known.awaits) feed->keyd_waits = false;
    else if (!open_keyd_once(feed, &known, &err).ok) say_that_it_waits(feed, &err);
    if (known.patience_s / PATIENCE_SHARE < feed->refresh_s) feed->refresh_s = known.patience_s / PATIENCE_SHARE;
    atomic_store(feed->is_without, known.is_without);
}
