//! Every stage on embedded samples on the CPU: depth mean, then prior, graph and scorer in their order, each exported and
//! run by `rten`.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use gpara::{
    AcquisitionModel, AcquisitionSession, EnsembleCache, MeasurementSource, ResidualPrecision, SessionSettings,
};
use gpara::{
    BatchRule, Context, Correction, ErrorKind, FieldSource, Gpara, GparaSettings, GraphDescriptor, GraphPredictor,
    MeanPredictor, MeanSolver, Observation, Observations, RiskRule, SeedTree, UniformGraph, UtilityMethod,
};
use gpara_nn::{OnnxGraph, OnnxMean, OnnxScorer};
use gpara_train::{
    LikelihoodConfig, RunOptions, RunSummary, TorchNetwork, TrainConfig, export_model, import_model, read_weights,
    train,
};
use tch::Device;

/// libtorch has one generator a process: two runs at once would draw from each other's seeds.
fn alone() -> MutexGuard<'static, ()> {
    static RUNNING: Mutex<()> = Mutex::new(());
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

fn config(name: &str) -> TrainConfig {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../configs/{name}.toml"));
    let mut config = TrainConfig::read(&path).expect("the configuration is right");
    config.network.widths = vec![8, 8, 8];
    config.network.blocks = 1;
    config
}

fn run(config: &TrainConfig, out: &Path, max_steps: Option<u64>) -> RunSummary {
    let options =
        RunOptions { data: None, out: out.into(), resume: true, max_seconds: None, max_steps, device: Device::Cpu };
    train(config, &options).expect("the run ends well")
}

fn export(out: &Path, config: &TrainConfig) -> PathBuf {
    let weights = out.join(format!("{}.safetensors", config.name));
    let report = export_model(&weights, &out.join("models"), None).expect("the export agrees with libtorch");
    assert!(report.max_difference < 1e-4, "{}: {}", config.name, report.max_difference);
    out.join("models").join(format!("{}.onnx", config.name))
}

fn error(summary: &RunSummary, name: &str) -> f64 {
    summary.validation.iter().find(|(found, _)| found == name).expect("a validation error").1
}

/// An embedded room with 200 of its cells measured.
fn measured_room() -> (Context, Observations) {
    let room = gpara_tasks::depth::sample_room(3).expect("there are twelve rooms");
    let context = room.scene.context(&room.valid).expect("the room has its own mask");
    let mut observations = Observations::none(context.grid());
    let entries: Vec<Observation> = (0..200)
        .map(|k| Observation { node: 245 * k, value: f64::from(room.field[245 * k]), noise_std: 1e-3 })
        .collect();
    observations.add(context.valid(), &entries).expect("every cell of a room is valid");
    (context, observations)
}

/// The largest difference of two fields.
fn worst(left: &[f64], right: &[f64]) -> f64 {
    left.iter().zip(right).map(|(left, right)| (left - right).abs()).fold(0.0, f64::max)
}

#[test]
fn depth_mean_learns_relative_depth_from_augmented_rooms_and_runs_in_rten() {
    let _alone = alone();
    let out = tempfile::tempdir().unwrap();
    let mut config = config("smoke_depth_mean");
    config.budget.steps = Some(36);
    config.optimizer.learning_rate = 1e-2;
    let (start, end) = (run(&config, out.path(), Some(1)), run(&config, out.path(), None));
    assert_eq!((start.finished, end.finished, end.step), (false, true, 36));
    let weights = out.path().join("smoke_depth_mean.safetensors");
    let (_, _store, facts) = read_weights(&weights, Device::Cpu).unwrap();
    // Metres, farthest 491. A fresh network answers with the mean of the measured values.
    let (first, best) = (error(&start, "farthest_491"), facts.validation[0].1);
    assert!(first < 3.0 && best < 0.96 * first, "{first} m at first, {best} m at best");

    let model = OnnxMean::from_file(&export(out.path(), &config), 1).unwrap();
    model.network().verify().unwrap();
    let (context, observations) = measured_room();
    let torch = TorchNetwork::load(&weights, Device::Cpu).unwrap();
    for observations in [&observations, &Observations::none(context.grid())] {
        let expected = torch.predict(&context, observations).unwrap();
        let found = model.predict(&context, observations).unwrap();
        let worst = worst(&found, &expected);
        assert!(worst < 1e-4, "{worst}");
    }
}

#[test]
fn mean_that_corrects_the_guided_field_starts_from_it_and_runs_in_rten() {
    let _alone = alone();
    let out = tempfile::tempdir().unwrap();
    let mut plain = config("smoke_depth_mean");
    (plain.target, plain.budget.steps) = (gpara_nn::Target::Field, Some(4));
    run(&plain, out.path(), None);
    let mut guided = plain.clone();
    (guided.name, guided.start) = ("smoke_guided".into(), Some(plain.name));
    (guided.guided_field, guided.map_error) = (true, gpara_train::MapError::RootMeanSquare);
    let guided = guided.check().unwrap();

    let (context, observations) = measured_room();

    // Without any learning the weights of the plain network make no correction, though its last layer does something.
    let mut idle = guided.clone();
    (idle.name, idle.optimizer.learning_rate) = ("smoke_idle".into(), 1e-12);
    run(&idle, out.path(), Some(1));
    let field = gpara_nn::guided_field(&context, &observations).unwrap();
    let idle = TorchNetwork::load(&out.path().join("smoke_idle.safetensors"), Device::Cpu).unwrap();
    assert!(worst(&idle.predict(&context, &observations).unwrap(), &field) < 1e-6);

    let summary = run(&guided, out.path(), None);
    assert!(summary.finished && summary.loss.is_finite());
    let model = OnnxMean::from_file(&export(out.path(), &guided), 1).unwrap();
    model.network().verify().unwrap();
    let torch = TorchNetwork::load(&out.path().join("smoke_guided.safetensors"), Device::Cpu).unwrap();
    for observations in [&observations, &Observations::none(context.grid())] {
        let expected = torch.predict(&context, observations).unwrap();
        assert!(worst(&model.predict(&context, observations).unwrap(), &expected) < 1e-4);
        assert!(worst(&expected, &gpara_nn::guided_field(&context, observations).unwrap()) > 1e-5, "nothing learned");
    }
    // A spread network finds the field that its frozen mean reads.
    let mut spread = config("smoke_spread");
    (spread.name, spread.data, spread.masks) = ("smoke_depth_spread".into(), guided.data, guided.masks.clone());
    spread.augmentation = guided.augmentation.clone();
    spread.spread.as_mut().unwrap().mean = guided.name.clone();
    spread.budget.steps = Some(2);
    assert!(run(&spread.check().unwrap(), out.path(), None).loss.is_finite());
}

#[test]
fn guided_field_is_refused_where_there_is_no_picture_or_no_measurement() {
    let refused = |change: &dyn Fn(&mut TrainConfig)| {
        let mut config = config("smoke_depth_mean");
        (config.target, config.guided_field) = (gpara_nn::Target::Field, true);
        change(&mut config);
        config.check().map(|_| ()).unwrap_err().to_string()
    };
    for change in [
        &(|config: &mut TrainConfig| config.data = gpara_train::Source::SampleCity) as &dyn Fn(&mut TrainConfig),
        &|config| config.target = gpara_nn::Target::Relative,
        &|config| (config.measurements, config.masks) = (false, None),
    ] {
        let message = refused(change);
        assert!(message.contains("guided_field = true"), "{message}");
    }
}

#[test]
fn prior_then_graph_then_scorer_train_resume_export_and_serve_the_policy() {
    let _alone = alone();
    let (out, pieces) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut prior = config("smoke_prior");
    prior.budget.steps = Some(6);
    run(&prior, out.path(), None);

    let graph = config("smoke_graph");
    let whole = run(&graph, out.path(), None);
    assert!(whole.finished && whole.loss.is_finite());
    // A run in two pieces ends with the same weights.
    std::fs::copy(out.path().join("smoke_prior.safetensors"), pieces.path().join("smoke_prior.safetensors")).unwrap();
    run(&graph, pieces.path(), Some(5));
    run(&graph, pieces.path(), None);
    let bytes = |folder: &Path, name: &str| std::fs::read(folder.join(format!("{name}.checkpoint"))).unwrap();
    let tensors = |bytes: Vec<u8>| {
        let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
        let mut tensors: Vec<_> = file.iter().map(|(name, view)| (name.to_string(), view.data().to_vec())).collect();
        tensors.sort();
        tensors
    };
    let same = |name| tensors(bytes(out.path(), name)) == tensors(bytes(pieces.path(), name));
    assert!(same("smoke_graph"), "pieces differ from the whole");

    let scorer = config("smoke_scorer");
    let summary = run(&scorer, out.path(), None);
    assert!(summary.finished && (0.0..=1.0).contains(&error(&summary, "regret")), "{summary:?}");
    assert!((0.0..=1.0).contains(&error(&summary, "on_policy_regret")), "{summary:?}");
    // A resumed run runs its campaigns again.
    std::fs::copy(out.path().join("smoke_graph.safetensors"), pieces.path().join("smoke_graph.safetensors")).unwrap();
    run(&scorer, pieces.path(), Some(3));
    run(&scorer, pieces.path(), None);
    assert!(same("smoke_scorer"), "pieces differ from the whole");
    let mut direct = config("smoke_scorer");
    (direct.name, direct.parameterization) = ("smoke_direct".into(), gpara_train::Output::DirectScore);
    direct.budget.steps = Some(2);
    direct.scorer.as_mut().and_then(|scorer| scorer.rollout.as_mut()).unwrap().scorer = Some("smoke_scorer".into());
    run(&direct, out.path(), None);

    let square = gpara_tasks::radio::sample_scene(4).unwrap();
    let context = square.scene.context();
    let num_nodes = context.grid().num_nodes();
    let predictor = OnnxGraph::from_file(&export(out.path(), &graph), 1).unwrap();
    predictor.network().verify().unwrap();
    let (mean, std) = (vec![-0.3; num_nodes], vec![0.2; num_nodes]);
    let descriptor = GraphDescriptor { context: &context, prior_mean: &mean, prior_std: &std, num_measured: 0 };
    let conductances = predictor.predict(&descriptor).unwrap();
    assert_ne!(conductances, UniformGraph.predict(&descriptor).unwrap(), "training moved the graph");

    let truth: Vec<f64> = square.field.iter().map(|&value| f64::from(value)).collect();
    let precision = ResidualPrecision::new(conductances, 0.0625, 0.8).unwrap();
    for config in [&scorer, &direct] {
        let scorer = OnnxScorer::from_file(&export(out.path(), config), 1).unwrap();
        scorer.network().verify().unwrap();
        let settings = GparaSettings {
            correction: Correction { solver: MeanSolver::Exact, strength: 1.0, range: None },
            risk: RiskRule::Uniform,
            utility: UtilityMethod::Exact,
            score_bound: 2.0,
            batch_rule: BatchRule::ExactKappa,
        };
        let policy = Box::new(Gpara::new(settings, Box::new(scorer)));
        let mut model = AcquisitionModel { policy, precision: precision.clone(), ensemble: EnsembleCache::nothing() };
        let settings = SessionSettings { budget: 6, max_batch: 3, noise_std: 1e-4 };
        let mut session = AcquisitionSession::new(context.clone(), settings, SeedTree::new(1)).unwrap();
        let mut source = FieldSource::new(truth.clone(), 1e-4, SeedTree::new(1)).unwrap();
        while session.next_batch() > 0 {
            let nodes = session.ask(&mut model, session.next_batch()).unwrap().nodes();
            session.tell(&source.measure(&nodes).unwrap()).unwrap();
        }
        assert_eq!(session.observations().len(), 6, "{}", config.name);
    }
}

#[test]
fn graph_learns_by_the_likelihood_of_the_mean_networks_residuals() {
    let _alone = alone();
    let out = tempfile::tempdir().unwrap();
    run(&config("smoke_mean"), out.path(), Some(1));
    run(&config("smoke_spread"), out.path(), Some(1));
    let mut graph = config("smoke_graph");
    (graph.name, graph.graph, graph.conditioner) = ("smoke_likelihood".into(), None, None);
    graph.likelihood = Some(LikelihoodConfig {
        mean: "smoke_mean".into(),
        spread: "smoke_spread".into(),
        residual_precision: 1e-9,
        graph_coupling: 1.0,
        kappa_squared: Some(1e-2),
    });
    graph.budget.steps = Some(5);
    graph.log.validate_every = 5;
    graph.log.watch = vec!["nll_farthest_491".into()];
    graph.masks.as_mut().unwrap().max_count = 200;
    let end = run(&graph.check().unwrap(), out.path(), None);
    let (learned, uniform) = (error(&end, "nll_farthest_491"), error(&end, "uniform_nll_farthest_491"));
    assert!(learned < uniform - 1e-3, "{learned} learned, {uniform} with the uniform graph");
}

#[test]
fn spread_learns_where_the_mean_network_errs_and_is_exported() {
    let _alone = alone();
    let out = tempfile::tempdir().unwrap();
    run(&config("smoke_mean"), out.path(), Some(20));
    let spread = config("smoke_spread");
    let end = run(&spread, out.path(), None);
    let (learned, constant) = (error(&end, "nll_farthest_491"), error(&end, "constant_nll_farthest_491"));
    assert!(learned < constant, "{learned} learned, {constant} with one scale for all cells");
    let report = export_model(&out.path().join("smoke_spread.safetensors"), out.path(), None).unwrap();
    assert!(report.max_difference < 1e-4, "{report:?}");
}

#[test]
fn exported_network_comes_back_as_the_weights_of_its_run() {
    let _alone = alone();
    let out = tempfile::tempdir().unwrap();
    let config = config("smoke_mean");
    run(&config, out.path(), Some(2));
    let weights = out.path().join("smoke_mean.safetensors");
    export_model(&weights, out.path(), None).unwrap();
    let back = out.path().join("back");
    import_model(&out.path().join("smoke_mean.onnx"), &config, &back).unwrap();
    export_model(&back.join("smoke_mean.safetensors"), &back, None).unwrap();
    let bytes = |folder: &Path| std::fs::read(folder.join("smoke_mean.onnx")).unwrap();
    assert!(bytes(out.path()) == bytes(&back));
}

#[test]
fn stage_without_its_frozen_network_or_with_one_of_another_role_is_refused() {
    let _alone = alone();
    let out = tempfile::tempdir().unwrap();
    let attempt = |config: &TrainConfig| {
        let (out, device) = (out.path().into(), Device::Cpu);
        let options = RunOptions { data: None, out, resume: false, max_seconds: None, max_steps: Some(1), device };
        train(config, &options).unwrap_err().kind()
    };
    assert_eq!(attempt(&config("smoke_graph")), ErrorKind::Io);
    let mut mean = config("smoke_mean");
    mean.name = "smoke_prior".into();
    run(&mean, out.path(), Some(1));
    assert_eq!(attempt(&config("smoke_graph")), ErrorKind::Incompatible);
    assert_eq!(
        config("smoke_graph").require_role(&[gpara_train::Role::Prior]).unwrap_err().kind(),
        ErrorKind::Incompatible
    );
}

#[test]
fn every_configuration_in_the_folder_is_right() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../configs");
    let other = ["eval_", "preset_", "run_"];
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let trains = name != "smoke.toml" && !other.iter().any(|prefix| name.starts_with(prefix));
        if name.ends_with(".toml") && trains {
            TrainConfig::read(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
            count += 1;
        }
    }
    assert!(count >= 15, "{count} training configurations");
}
