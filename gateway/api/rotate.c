/* POST /api/v1/robots/ID/secret: a new secret for a robot (docs/identity.md). */
#include "authz/robot.h"
#include "base/clock.h"
#include "gateway/api/api_priv.h"
#include "policy/decider/decider.h"

#define DAY_S       86400
#define WAIT_MAX_MS 3000 /* longer only if the clocks differ */

struct result target_robot_rotate(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup, (void)err;
    api_pair_of_id(request, ACTION_ROBOT_ROTATE, decider_find_robot);
    return SUCCESS;
}

SCHEMA_WITH(
    SCHEMA_MAY_BE_LEFT_OUT, robot_rotation, "a new secret for a robot; all members may be left out, and so may the body",
    HAS_NUMBER("expires_days", OPTIONAL, 1, ROBOT_DAYS_MAX,
               "days until the new secret ends; if left out, as many as the registry allows (robot_days_max)"),
    HAS_NUMBER("grace_seconds", OPTIONAL, 0, ROBOT_GRACE_SECONDS_MAX, "how long the previous secret stays valid; 0 if left out"),
    HAS_TEXT("certificate", OPTIONAL, FORM_FREE, 5, ROBOT_CERTIFICATE_SIZE - 1,
             "no secret: the robot logs in by a certificate (RFC 8705). x5t#S256: and its SHA-256 in base64url; or dns: or uri: "
             "and a name in it, if an authority of clients has signed it"))

static struct result read_wanted(struct request *request, int64_t *lifetime_s_out, int64_t *grace_s_out,
                                 const char **certificate_out, struct error *err)
{
    const int64_t most = request->gateway->settings->robot_days_max;
    int64_t days = most, grace_s = 0;
    const json_t *body = NULL;

    if (request->body.length > 0) TRY(request_document(request, &body, err));
    (void)json_integer_of(body, "expires_days", &days);
    if (days > most) return failure(err, ERROR_INVALID, "expires_days: at most %lld here", (long long)most);
    (void)json_integer_of(body, "grace_seconds", &grace_s);
    *certificate_out = json_text_of(body, "certificate");
    *lifetime_s_out = days * DAY_S;
    *grace_s_out = grace_s;
    return SUCCESS;
}

/*
 * All tokens that were made before the end of the old secret are invalid from then on, whichever secret made them. So the
 * answer with the new secret waits for that time: then the old tokens have ended, and a token made with the new secret is
 * valid.
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
    const char *secret = rotate->secret == NULL ? NULL : (const char *)secret_bytes(rotate->secret).data;
    OWNED_JSON value =
        json_pack("{s:s, s:s, s:b, s:s, s:s, s:s*, s:s*}", "id", id, "name", rotate->name, "enabled", 1, "expires", expires,
                  "previous_until", until, "secret", secret, "certificate", secret == NULL ? rotate->certificate : NULL);
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
    const char *certificate = NULL;
    struct robot_rotate rotate;
    struct uuid id;

    (void)pg;
    TRY(api_id(request, "robot", &id, err));
    TRY(read_wanted(request, &lifetime_s, &grace_s, &certificate, err));
    TRY(robot_rotate_init(&rotate, &id, &request->pairs[0].resource.organisation, lifetime_s, grace_s, err));
    principal_key(request->principal, rotate.rotated_by);
    (void)snprintf(rotate.rotator_issuer, sizeof rotate.rotator_issuer, "%s", request->principal->issuer);
    struct result result = certificate == NULL ? SUCCESS : robot_rotate_to(&rotate, certificate, err);
    if (result.ok) result = rotate_robot(request, &rotate, err);
    robot_rotate_done(&rotate);
    return result;
}

const struct handler handler_robot_rotate = {.handle = handle};
