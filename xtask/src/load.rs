//! The explorer under many clients at once, over sockets.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::{Outcome, USAGE, cargo, run as run_command, target};

/// What clients ask about the demo's people: a name, a method, an address and a body.
const QUESTIONS: [(&str, &str, &str, &str); 10] = [
    ("page", "GET", "/app.js", ""),
    ("overview", "GET", "/api/overview?charts=true", ""),
    ("overview, filtered", "GET", "/api/overview?charts=true&where=age+%3E%3D+40", ""),
    ("column", "GET", "/api/columns/income?charts=true", ""),
    ("column, filtered", "GET", "/api/columns/income?charts=true&where=age+%3E%3D+40", ""),
    ("correlations", "GET", "/api/correlations?charts=true", ""),
    ("pair", "GET", "/api/pairs?x=age&y=income&charts=true", ""),
    (
        "SQL",
        "POST",
        "/api/sql",
        r#"{"query": "SELECT region, COUNT(*), AVG(income) FROM t GROUP BY 1", "charts": true}"#,
    ),
    ("model", "POST", "/api/fit", r#"{"formula": "income ~ age + hours", "charts": true}"#),
    ("rows", "GET", "/api/synth?rows=25", ""),
];

/// How long a client waits for an answer: longer than the server works on one.
const PATIENCE: Duration = Duration::from_secs(90);

/// Serves the demo's release to so many clients, each of which asks one question after the other.
pub fn run(mut options: &[&str]) -> Outcome {
    let (mut clients, mut seconds) = (200, 30);
    while let [option, value, rest @ ..] = options {
        let value = value.parse().map_err(|_| USAGE.to_owned())?;
        match *option {
            "--clients" => clients = value,
            "--seconds" => seconds = value,
            _ => return Err(USAGE.to_owned()),
        }
        options = rest;
    }
    if !options.is_empty() || clients == 0 {
        return Err(USAGE.to_owned());
    }
    cargo(&["build", "--release", "--package", "m2m-cli"])?;
    let (program, folder) = (target().join("release/m2m"), target().join("load"));
    run_command(Command::new(&program).args(["demo", "--force", "--out"]).arg(&folder).stdout(Stdio::null()))?;
    let server = Server::start(&program, &folder.join("people.m2m"))?;
    let failed = |error: std::io::Error| format!("the server does not answer: {error}");
    for question in 0..QUESTIONS.len() {
        Client::new(&server).ask(question).map_err(failed)?;
    }

    let start = Instant::now();
    let time = Duration::from_secs(seconds);
    let (answers, memory) = std::thread::scope(|scope| {
        let server = &server;
        let running: Vec<_> =
            (0..clients).map(|first| scope.spawn(move || visit(server, first as usize, start + time))).collect();
        let memory: Vec<u64> = (0..=4)
            .map(|quarter| {
                std::thread::sleep((start + time * quarter / 4).saturating_duration_since(Instant::now()));
                server.memory()
            })
            .collect();
        let answers: Vec<Answer> = running.into_iter().flat_map(|client| client.join().unwrap_or_default()).collect();
        (answers, memory)
    });
    let wrong: Vec<&str> =
        answers.iter().filter_map(|answer| answer.result.as_ref().err()).map(String::as_str).collect();
    let took = start.elapsed().as_secs_f64();
    let rate = answers.len() as f64 / took;
    println!("{clients} clients for {took:.0} s: {} requests ({rate:.0}/s), {} errors", answers.len(), wrong.len());
    println!("{:<20}{:>10}{:>14}{:>14}", "", "requests", "median, ms", "99%, ms");
    report("all", answers.iter());
    for (at, (name, ..)) in QUESTIONS.iter().enumerate() {
        report(name, answers.iter().filter(|answer| answer.question == at));
    }
    let shown: Vec<String> = memory.iter().map(|kibibytes| format!("{:.0}", *kibibytes as f64 / 1024.0)).collect();
    println!("memory of the server at the start and after each quarter, in MiB: {}", shown.join(" "));
    let idle = server.memory();
    println!("and when all have left: {:.0}", idle as f64 / 1024.0);
    if let Some(first) = wrong.first() {
        return Err(format!("{} requests failed; the first: {first}", wrong.len()));
    }
    // Half of the time is enough for all that is kept to be there.
    if idle.min(memory[4]) > memory[2] + memory[2] / 4 {
        return Err("the server's memory grows".into());
    }
    Ok(())
}

/// One line on some answers.
fn report<'a>(name: &str, answers: impl Iterator<Item = &'a Answer>) {
    let mut times: Vec<f64> = answers.map(|answer| 1000.0 * answer.time.as_secs_f64()).collect();
    times.sort_by(f64::total_cmp);
    let quantile = |q: f64| times.get(((times.len() as f64 * q) as usize).min(times.len().saturating_sub(1)));
    let shown = |q: f64| quantile(q).map_or("-".to_owned(), |time| format!("{time:.1}"));
    println!("{name:<20}{:>10}{:>14}{:>14}", times.len(), shown(0.5), shown(0.99));
}

/// The explorer, until it is dropped.
struct Server {
    process: Child,
    host: String,
    token: String,
}

impl Server {
    fn start(program: &Path, release: &Path) -> Outcome<Self> {
        let mut process = Command::new(program)
            .arg("explore")
            .arg(release)
            .arg("--no-open")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", program.display()))?;
        let mut link = String::new();
        let read = BufReader::new(process.stdout.take().expect("it is piped")).read_line(&mut link);
        let parts = link.trim().strip_prefix("http://").and_then(|rest| rest.split_once("/?token="));
        let Some((host, token)) = parts.filter(|_| read.is_ok()) else {
            return Err("the explorer does not say where it is".into());
        };
        Ok(Self { host: host.to_owned(), token: token.to_owned(), process })
    }

    /// What it has in memory, in kibibytes.
    fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap_or_default();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB"));
        resident.and_then(|number| number.parse().ok()).unwrap_or(0)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

struct Answer {
    question: usize,
    time: Duration,
    result: Result<(), String>,
}

/// Asks one question after the other until it is late.
fn visit(server: &Server, first: usize, end: Instant) -> Vec<Answer> {
    let mut client = Client::new(server);
    let mut answers = Vec::new();
    while Instant::now() < end {
        // Everybody in another order, so that not all ask the same at once.
        let question = (first + answers.len() * [1, 3, 7][first / QUESTIONS.len() % 3]) % QUESTIONS.len();
        let start = Instant::now();
        let result = client.ask(question).map_err(|error| format!("{}: {error}", QUESTIONS[question].0));
        answers.push(Answer { question, time: start.elapsed(), result });
    }
    answers
}

/// One connection, kept as browsers keep theirs.
struct Client<'a> {
    server: &'a Server,
    connection: Option<BufReader<TcpStream>>,
}

impl<'a> Client<'a> {
    fn new(server: &'a Server) -> Self {
        Self { server, connection: None }
    }

    fn ask(&mut self, question: usize) -> std::io::Result<()> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => {
                let stream = TcpStream::connect(&self.server.host)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.set_nodelay(true)?;
                BufReader::new(stream)
            }
        };
        let (_, method, address, body) = QUESTIONS[question];
        let Server { host, token, .. } = self.server;
        let request = format!(
            "{method} {address} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        connection.get_mut().write_all(request.as_bytes())?;
        read_answer(&mut connection)?;
        self.connection = Some(connection);
        Ok(())
    }
}

/// Reads an answer to its end; anything but 200 is an error.
fn read_answer(connection: &mut impl BufRead) -> std::io::Result<()> {
    let (mut first, mut length, mut line) = (String::new(), 0, String::new());
    connection.read_line(&mut first)?;
    while connection.read_line(&mut line)? > 2 {
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().map_err(std::io::Error::other)?;
        }
        line.clear();
    }
    let read = std::io::copy(&mut connection.take(length), &mut std::io::sink())?;
    if first.split(' ').nth(1) != Some("200") || read < length || length == 0 {
        return Err(std::io::Error::other(format!("{} with {read} of {length} bytes", first.trim())));
    }
    Ok(())
}
