/* POST /api/v1/robots/ID/secret: a new secret for a robot (docs/identity.md). */
#include "authz/robot.h"
#include "base/clock.h"
#include "gateway/api/api_priv.h"
#include "policy/decider.h"

#define DAY_S       86400
#define WAIT_MAX_MS 3000 /* longer only if the clocks differ */

struct result target_robot_rotate(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup, (void)err;
    api_pair_of_id(request, ACTION_ROBOT_ROTATE, decider_find_robot);
    return SUCCESS;
}

static struct result read_wanted(const struct request *request, int64_t *lifetime_s_out, int64_t *grace_s_out, struct error *err)
{
    json_int_t days = ROBOT_DAYS_MAX, grace_s = 0;
    OWNED_JSON body = NULL;

    if (request->body.length > 0) {
        TRY(api_body(request, &body, err));
        TRY(api_unpack(body, err, "{s?:I, s?:I}", "expires_days", &days, "grace_seconds", &grace_s));
    }
    if (days < 1 || days > ROBOT_DAYS_MAX)
        return failure(err, ERROR_INVALID, "expires_days is a number from 1 to %d", ROBOT_DAYS_MAX);
    if (grace_s < 0 || grace_s > ROBOT_GRACE_SECONDS_MAX)
        return failure(err, ERROR_INVALID, "grace_seconds is a number from 0 to %lld", (long long)ROBOT_GRACE_SECONDS_MAX);
    *lifetime_s_out = (int64_t)days * DAY_S;
    *grace_s_out = (int64_t)grace_s;
    return SUCCESS;
}

/*
 * Tokens that were made before the end of the old secret count no longer then, whichever secret they are of. The new one is told
 * once that is over: so the old ones have ended when the answer comes, and nobody makes a token with the new one that does not count.
 */
static void let_old_tokens_end(struct request *request, int64_t end_ms)
{
    const int64_t left_ms = end_ms - clock_wall_ms();

    if (left_ms > 0 && left_ms <= WAIT_MAX_MS) request_wait(request, left_ms);
}

static struct result answer(struct request *request, const struct robot_rotate *rotate, struct error *err)
{
    char id[UUID_TEXT_SIZE], expires[CLOCK_TEXT_SIZE], until[CLOCK_TEXT_SIZE];

    uuid_format(&rotate->robot, id);
    clock_format(rotate->expires_ms, expires);
    clock_format(rotate->previous_until_ms, until);
    OWNED_JSON value = json_pack("{s:s, s:s, s:b, s:s, s:s, s:s}", "id", id, "name", rotate->name, "enabled", 1, "expires", expires,
                                 "previous_until", until, "secret", (const char *)secret_bytes(rotate->secret).data);
    if (value == NULL) return failure(err, ERROR_NO_MEMORY, "the secret was replaced, but the new one is lost: replace it again");
    response_json(request, 200, value);
    response_header(request, "Cache-Control", "no-store");
    return SUCCESS;
}

static struct result rotate_robot(struct request *request, struct robot_rotate *rotate, struct error *err)
{
    TRY(request_record(request, &rotate->change, err));
    TRY(answer(request, rotate, err));
    if (rotate->grace_s == 0) let_old_tokens_end(request, rotate->previous_until_ms);
    return SUCCESS;
}

static struct result handle(struct request *request, struct pg *pg, struct error *err)
{
    int64_t lifetime_s = 0, grace_s = 0;
    struct robot_rotate rotate;
    struct uuid id;

    (void)pg;
    if (!uuid_parse(bytes_of_text(request->reference), &id)) return failure(err, ERROR_NOT_FOUND, "there is no such robot");
    TRY(read_wanted(request, &lifetime_s, &grace_s, err));
    TRY(robot_rotate_init(&rotate, &id, &request->pairs[0].resource.organisation, lifetime_s, grace_s, err));
    principal_key(&request->principal, rotate.rotated_by);
    const struct result result = rotate_robot(request, &rotate, err);
    robot_rotate_done(&rotate);
    return result;
}

const struct handler handler_robot_rotate = {.handle = handle};
