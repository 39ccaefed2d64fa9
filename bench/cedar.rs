// Decisions of Cedar's own library. usage: cedar POLICIES QUESTIONS SECONDS; prints CPU nanoseconds a decision, and a digit for each answer.
use cedar_policy::{Authorizer, Context, Decision, Entities, EntityUid, PolicySet, Request};

fn cpu() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn uid(kind: &str, name: &str) -> EntityUid {
    format!("{kind}::{name:?}").parse().expect("a name")
}

fn request(question: &serde_json::Value) -> Request {
    let context = serde_json::json!({"geo": question["geo"], "subjects": question["subjects"]});
    let operation = question["op"].as_str().expect("an operation");
    Request::new(
        uid("User", "somebody"),
        uid("Action", operation),
        uid("Repository", "health/ct"),
        Context::from_json_value(context, None).expect("a context"),
        None,
    )
    .expect("a request")
}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let policies: PolicySet = std::fs::read_to_string(&words[1]).expect("policies").parse().expect("policies");
    let text = std::fs::read_to_string(&words[2]).expect("questions");
    let questions: Vec<serde_json::Value> = serde_json::from_str(&text).expect("questions");
    let seconds: u64 = words[3].parse().expect("seconds");
    let asked: Vec<Request> = questions.iter().map(request).collect();
    let (authorizer, entities) = (Authorizer::new(), Entities::empty());
    let (mut answers, mut decided) = (String::new(), 0u64);
    let began = cpu();
    while cpu() - began < seconds * 1_000_000_000 {
        for each in &asked {
            let allowed = authorizer.is_authorized(each, &policies, &entities).decision() == Decision::Allow;
            decided += 1;
            if decided <= asked.len() as u64 {
                answers.push(if allowed { '1' } else { '0' });
            }
        }
    }
    println!("{} {answers}", (cpu() - began) / decided);
}
